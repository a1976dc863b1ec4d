package volumes_test

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/planekit/planekit/internal/randomcluster"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/schedule"
	corev1 "k8s.io/api/core/v1"
)

// TestWakes makes random changes, and checks that no pod that waits fits a node after one that did not wake
// it. The claims of pods on nodes and their volumes do not change: see limitsWake.
func TestWakes(t *testing.T) {
	woken := 0
	for range 40 {
		seed := rand.Uint64N(1 << 32)
		t.Run(fmt.Sprintf("seed=%d", seed), func(t *testing.T) { woken += walk(t, seed) })
	}
	if woken < 5 {
		t.Errorf("%d pods were woken", woken)
	}
}

// walk returns how many pods were woken and then fit.
func walk(t *testing.T, seed uint64) (woken int) {
	c, r := randomcluster.New(seed), rand.New(rand.NewPCG(seed, 1))
	w := newWorld()
	w.fill(c)
	checks := w.checker()
	s := schedule.NewState([]schedule.Predicate{checks.Restrictions(), checks.Limits(), checks.Zone()}, nil, seed)
	for _, n := range c.Nodes {
		s.SetNode(n)
	}
	for _, p := range c.Pods {
		s.SetPod(schedule.NewPodInfo(p))
	}
	var event schedule.Event
	for _, source := range checks.Sources() {
		sub := source(func(e schedule.Event) { event = e })
		defer sub.Stop()
		<-sub.CaughtUp
	}
	waiting := map[*schedule.PodInfo]*schedule.FitError{}
	for step := range 80 {
		what := ""
		event = schedule.Event{}
		if r.IntN(2) == 0 {
			what, event = changeState(c, r, s)
		} else {
			what = w.change(c, r)
		}
		for p, unfit := range waiting {
			helps := s.Helps(unfit, event)
			node, err := s.Decide(p)
			switch {
			case err == nil && !helps:
				t.Fatalf("step %d, %s: %s fits %s and was not woken", step, what, p.Key, node)
			case err == nil:
				woken++
				delete(waiting, p)
			case helps:
				waiting[p] = err
			}
		}
		p := schedule.NewPodInfo(c.Pod())
		if _, err := s.Decide(p); err != nil && len(waiting) < 10 {
			waiting[p] = err
		}
	}
	return woken
}

// fill puts the storage of a random cluster into the caches.
func (w *world) fill(c *randomcluster.Cluster) {
	w.claims.Replace(c.Claims...)
	w.volumes.Replace(c.Volumes...)
	w.classes.Replace(c.Classes...)
	w.csiNodes.Replace(c.CSINodes...)
	w.attachments.Replace(c.Attachments...)
}

// changeState makes a change of a node or a pod on one.
func changeState(c *randomcluster.Cluster, r *rand.Rand, s *schedule.State) (string, schedule.Event) {
	name := c.Nodes[r.IntN(len(c.Nodes))].Name
	switch {
	case r.IntN(3) == 0:
		return "set " + name, s.SetNode(c.Node(name))
	case len(c.Pods) > 0 && r.IntN(2) == 0:
		i := r.IntN(len(c.Pods))
		p := c.Pods[i]
		c.Pods = append(c.Pods[:i], c.Pods[i+1:]...)
		return "remove " + p.Name, s.RemovePod(p.Namespace + "/" + p.Name)
	}
	p := c.Pod()
	p.Spec.NodeName = name
	c.Pods = append(c.Pods, p)
	return "add " + p.Name, s.SetPod(schedule.NewPodInfo(p))
}

// change makes a change of an object in the caches.
func (w *world) change(c *randomcluster.Cluster, r *rand.Rand) string {
	name := c.Nodes[r.IntN(len(c.Nodes))].Name
	switch r.IntN(6) {
	case 0:
		return toggle(r, w.csiNodes, c.CSINodes)
	case 1:
		w.csiNodes.Put(limited(name, driver, r.Int32N(4)))
		return "limit of " + name
	case 2:
		return toggle(r, w.attachments, c.Attachments)
	case 3:
		return toggle(r, w.classes, c.Classes)
	}
	used := map[string]bool{}
	for _, p := range c.Pods {
		for _, v := range p.Spec.Volumes {
			if v.PersistentVolumeClaim != nil {
				used[v.PersistentVolumeClaim.ClaimName] = true
			}
		}
	}
	claim := c.Claims[r.IntN(len(c.Claims))]
	if used[claim.Name] || len(claim.OwnerReferences) > 0 {
		return "nothing"
	}
	if r.IntN(2) == 0 {
		return toggle(r, w.claims, []*corev1.PersistentVolumeClaim{claim})
	}
	for _, v := range c.Volumes {
		if v.Name == claim.Spec.VolumeName {
			return toggle(r, w.volumes, []*corev1.PersistentVolume{v})
		}
	}
	return "nothing"
}

// toggle removes one of the objects from a cache, or adds it.
func toggle[T localcache.Object](r *rand.Rand, cache *localcache.Map[T], list []T) string {
	if len(list) == 0 {
		return "nothing"
	}
	one := list[r.IntN(len(list))]
	key := localcache.KeyOf(one)
	if _, ok := cache.Get(key); ok {
		cache.Delete(key)
		return "remove " + key
	}
	cache.Put(one)
	return "add " + key
}
