package schedule_test

import (
	"testing"

	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/predicates"
	corev1 "k8s.io/api/core/v1"
)

// TestHugeRequests checks that a pod that requests more than an int64 holds fits no node, neither by itself
// nor by the sum of its containers, and that a node where such a pod was put has no room left.
func TestHugeRequests(t *testing.T) {
	huge := func(name, cpu, memory string, containers int) *corev1.Pod {
		p := pod(name, cpu, memory)
		for range containers - 1 {
			p.Spec.Containers = append(p.Spec.Containers, container(cpu, memory))
		}
		return p
	}
	for _, p := range []*corev1.Pod{
		huge("cpu", "9223372036854776", "", 1), huge("memory", "", "9223372036854775807", 1), huge("more", "", "16Ei", 1),
		huge("sum", "", "4Ei", 2), huge("many", "", "4Ei", 1000), huge("millis", "4611686018427387", "", 2),
		huge("exponent", "1e1999999999", "", 1), huge("memory-exponent", "", "1e1999999999", 1),
	} {
		s := schedule.NewState(predicates.Default(), nil, 1)
		s.SetNode(node("a", "4", "8Gi", "1000"))
		info := schedule.NewPodInfo(p)
		if at, err := s.Decide(info); err == nil {
			t.Errorf("%s fits %s", p.Name, at)
		}
		for i := range 50 { // by hand
			other := on(huge(p.Name+string(rune('A'+i)), "", "", 1), "a")
			other.Spec.Containers = p.Spec.Containers
			s.SetPod(schedule.NewPodInfo(other))
		}
		if at, err := s.Decide(schedule.NewPodInfo(pod("small", "1", "1Gi"))); err == nil {
			t.Errorf("beside %s, a small pod fits %s", p.Name, at)
		}
	}
}
