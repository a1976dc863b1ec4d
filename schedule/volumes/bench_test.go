package volumes_test

import (
	"fmt"
	"testing"

	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/predicates"
	"github.com/planekit/planekit/schedule/priorities"
	corev1 "k8s.io/api/core/v1"
)

// BenchmarkDecide is a decision about a pod with a claim, among nodes whose pods have claims as well.
func BenchmarkDecide(b *testing.B) {
	const nodes, podsEach = 1000, 10
	w := newWorld()
	checks := w.checker()
	list := append([]schedule.Predicate{checks.Restrictions(), checks.Limits(), checks.Zone()}, predicates.Default()...)
	s := schedule.NewState(list, priorities.Default(), 1)
	for n := range nodes {
		at := node(fmt.Sprint("n", n), "a")
		at.Status.Allocatable = corev1.ResourceList{corev1.ResourcePods: *quantity(110)}
		w.csiNodes.Put(limited(at.Name, driver, 20))
		s.SetNode(at)
		for p := range podsEach {
			name := fmt.Sprintf("p%d-%d", n, p)
			w.volumes.Put(csi("disk-"+name, name))
			w.claims.Put(claim(name, "", "disk-"+name))
			s.SetPod(schedule.NewPodInfo(pod(name, at.Name, ofClaim(name))))
		}
	}
	w.volumes.Put(csi("disk", "x"))
	w.claims.Put(claim("data", "", "disk"))
	web := schedule.NewPodInfo(pod("web", "", ofClaim("data")))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := s.Decide(web); err != nil {
			b.Fatal(err)
		}
	}
}
