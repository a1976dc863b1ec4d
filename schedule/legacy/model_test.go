package legacy_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/legacy"
	corev1 "k8s.io/api/core/v1"
)

// TestWakes makes random changes, and checks that no pod that waits fits a node after one that did not wake
// it.
func TestWakes(t *testing.T) {
	woken := 0
	for range 50 {
		seed := rand.Uint64N(1 << 32)
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { woken += walk(t, rand.New(rand.NewPCG(seed, 0))) })
	}
	if woken < 50 {
		t.Errorf("%d pods were woken", woken)
	}
}

// walk returns how many pods were woken and then fit.
func walk(t *testing.T, r *rand.Rand) (woken int) {
	cache := localcache.NewMap[*corev1.Service]()
	all := localcache.Scan(cache, func(s *corev1.Service) []string { return []string{s.Namespace} })
	s := schedule.NewState([]schedule.Predicate{legacy.NodeLabels([]string{"region"}, []string{"retired"}), legacy.ServiceAffinity(all, "region", "rack")}, nil, r.Uint64())
	var event schedule.Event
	defer schedule.Changes(cache)(func(e schedule.Event) { event = e }).Stop()
	app := func() string { return []string{"web", "db"}[r.IntN(2)] }
	waiting := map[*schedule.PodInfo]*schedule.FitError{}
	for step := range 100 {
		event = schedule.Event{}
		what := r.IntN(6)
		switch name := fmt.Sprint("n", r.IntN(5)); what {
		case 0, 1:
			labels := map[string]string{"region": fmt.Sprint(r.IntN(2)), "rack": fmt.Sprint(r.IntN(2))}
			delete(labels, []string{"region", "rack", "", ""}[r.IntN(4)])
			if r.IntN(5) == 0 {
				labels["retired"] = "yes"
			}
			event = s.SetNode(node(name, labels))
		case 2:
			event = s.RemoveNode(name)
		case 3:
			event = s.SetPod(schedule.NewPodInfo(pod(fmt.Sprint("p", r.IntN(4)), app(), name)))
		case 4:
			event = s.RemovePod(fmt.Sprint("default/p", r.IntN(4)))
		case 5:
			if r.IntN(2) == 0 {
				cache.Delete("default/s")
			} else {
				cache.Put(service("s", app()))
			}
		}
		for p, unfit := range waiting {
			helps := s.Helps(unfit, event)
			at, err := s.Decide(p)
			switch {
			case err == nil && !helps:
				t.Fatalf("step %d, change %d: %s fits %s and was not woken", step, what, p.Key, at)
			case err == nil:
				woken++
				delete(waiting, p)
			case helps:
				waiting[p] = err
			}
		}
		one := pod(fmt.Sprint("w", step), app(), "")
		if r.IntN(3) == 0 {
			selecting(one, "rack", fmt.Sprint(r.IntN(3)))
		}
		p := schedule.NewPodInfo(one)
		if _, err := s.Decide(p); err != nil && len(waiting) < 5 {
			waiting[p] = err
		}
	}
	return woken
}
