package simulate_test

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/internal/randomcluster"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/predicates"
	"github.com/planekit/planekit/schedule/priorities"
	"github.com/planekit/planekit/schedule/simulate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// randomWorkload returns a small cluster and pods that get in each other's way. No two arrive or end at once.
func randomWorkload(seed uint64, arrivals int) *simulate.Workload {
	c := randomcluster.New(seed)
	r := rand.New(rand.NewPCG(seed, 1))
	w := &simulate.Workload{Nodes: c.Nodes, Namespaces: c.Namespaces, Until: 20 * time.Minute}
	for range arrivals {
		p := c.Pod()
		p.Spec.SchedulerName = "default-scheduler"
		w.Arrivals = append(w.Arrivals, simulate.Arrival{
			At: time.Duration(r.Int64N(int64(5 * time.Minute))), Duration: time.Duration(1 + r.Int64N(int64(4*time.Minute))), Pod: p,
		})
	}
	slices.SortFunc(w.Arrivals, func(a, b simulate.Arrival) int { return cmp.Compare(a.At, b.At) })
	return w
}

// preemptingWorkload returns pods that fill a small cluster, and then ever more important ones, each of which
// preempts some. At most one pod waits at a time: of several, a scheduler may try one before or after it
// receives the end of another.
func preemptingWorkload(seed uint64) *simulate.Workload {
	r := rand.New(rand.NewPCG(seed, 2))
	w := &simulate.Workload{Nodes: simulate.Uniform(4, "8", "32Gi"), Until: 20 * time.Minute}
	for i := range 40 {
		p := pod(fmt.Sprintf("pod-%02d", i), fmt.Sprint(1+r.IntN(2)), fmt.Sprint(1+r.IntN(4), "Gi"))
		at := time.Duration(i) * time.Second
		if i >= 20 {
			p = pod(p.Name, fmt.Sprint(1+r.IntN(8)), fmt.Sprint(1+r.IntN(16), "Gi"))
			at = time.Duration(i-18) * 45 * time.Second
		}
		p.Spec.SchedulerName = "default-scheduler"
		w.Arrivals = append(w.Arrivals, simulate.Arrival{At: at, Duration: time.Hour, Pod: important(p, int32(i))})
	}
	return w
}

// TestScheduler checks that a simulation places and preempts the same pods at the same times on the same
// nodes as a [schedule.Scheduler] that runs in a bubble of synctest.
func TestScheduler(t *testing.T) {
	placed, preempted := 0, 0
	compare := func(seed uint64, w *simulate.Workload, preempt bool) {
		policy := simulate.Policy{Preempt: preempt, Seed: seed + 1}
		var have, want []string
		for _, p := range run(t, w, policy).Pods {
			if p.Node != "" {
				have = append(have, fmt.Sprintf("%v %s on %s", p.Placed, p.Pod, p.Node))
				placed++
			}
			if p.Outcome == simulate.Preempted {
				have = append(have, fmt.Sprintf("%v %s preempted", p.Ended, p.Pod))
				preempted++
			}
		}
		synctest.Test(t, func(t *testing.T) { want = runScheduler(t, w, policy) })
		slices.Sort(have)
		slices.Sort(want)
		if !slices.Equal(have, want) {
			t.Fatalf("seed %d, preempt=%v: a simulation has\n%v\nand a scheduler\n%v", seed, preempt, have, want)
		}
	}
	for seed := range uint64(8) {
		compare(seed, randomWorkload(seed, 60), false)
		compare(seed, preemptingWorkload(seed), true)
	}
	if placed < 500 || preempted < 50 {
		t.Errorf("only %d pods were placed and %d preempted", placed, preempted)
	}
}

// runScheduler runs a workload under a scheduler, in the time of synctest, and returns what happened.
func runScheduler(t *testing.T, w *simulate.Workload, policy simulate.Policy) []string {
	nodes, pods, namespaces := localcache.NewMap[*corev1.Node](), localcache.NewMap[*corev1.Pod](), localcache.NewMap(w.Namespaces...)
	start := time.Now()
	var mu sync.Mutex // guards log
	var log []string
	note := func(format string, args ...any) {
		mu.Lock()
		log = append(log, fmt.Sprint(time.Since(start), " ")+fmt.Sprintf(format, args...))
		mu.Unlock()
	}
	durations := map[string]time.Duration{}
	for _, a := range w.Arrivals {
		durations[a.Pod.Namespace+"/"+a.Pod.Name] = a.Duration
	}
	config := schedule.Config{
		Predicates: predicates.Default(), Priorities: priorities.Default(),
		Nodes: nodes, Pods: pods, Namespaces: namespaces, Seed: policy.Seed,
		Bind: func(_ context.Context, pod *corev1.Pod, node string) error {
			key := pod.Namespace + "/" + pod.Name
			note("%s on %s", key, node)
			bound := pod.DeepCopy()
			bound.Spec.NodeName = node
			bound.Status.StartTime = &metav1.Time{Time: time.Now()}
			pods.Put(bound)
			time.AfterFunc(durations[key], func() { pods.Delete(key) })
			return nil
		},
	}
	if policy.Preempt {
		config.Evict = func(_ context.Context, e schedule.Eviction) error {
			key := e.Victim.Namespace + "/" + e.Victim.Name
			victim := e.Victim.DeepCopy()
			victim.DeletionTimestamp = &metav1.Time{Time: time.Now()}
			pods.Put(victim)
			time.AfterFunc(30*time.Second, func() {
				if _, ok := pods.Get(key); ok {
					note("%s preempted", key)
					pods.Delete(key)
				}
			})
			return nil
		}
	}
	s, err := schedule.New(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), w.Until)
	defer cancel()
	ended := make(chan error, 1) // one answer
	go func() { ended <- s.Run(ctx) }()
	for _, n := range w.Nodes {
		synctest.Wait() // the order of nodes decides between equal ones
		nodes.Put(n)
	}
	for _, a := range w.Arrivals {
		time.Sleep(a.At - time.Since(start))
		object := a.Pod.DeepCopy()
		object.CreationTimestamp = metav1.Now()
		pods.Put(object)
		synctest.Wait()
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	time.Sleep(time.Hour) // the timers end
	return log
}
