// Package legacy has what the scheduler policies of Kubernetes v1.18 (Policy v1) could name, and later
// versions no longer have: predicates and priorities about labels of nodes, about the services of pods, and
// about limits.
//
//	config := schedule.Config{
//		Predicates: append(predicates.Default(), legacy.NodeLabels([]string{"region"}, nil), legacy.ServiceAffinity(services, "region")),
//		Priorities: append(priorities.Default(),
//			schedule.Weighted{Priority: legacy.PreferAvoidPods(), Weight: legacy.PreferAvoidPodsWeight},
//			schedule.Weighted{Priority: legacy.SelectorSpread(together.Selector), Weight: 1},
//		),
//		Sources: []schedule.Source{schedule.Changes(services)},
//		...
//	}
//
// Formulas and messages are those of v1.18. All are safe for concurrent use.
package legacy

import (
	"cmp"
	"slices"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/schedule"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Services finds services by their namespace.
type Services = localcache.Index[string, *corev1.Service]

// servicesOf returns the services that select a pod, by name.
func servicesOf(services Services, pod *corev1.Pod) (list []*corev1.Service) {
	for s := range services.Get(pod.Namespace) {
		if selects(s, pod) {
			list = append(list, s)
		}
	}
	slices.SortFunc(list, func(a, b *corev1.Service) int { return cmp.Compare(a.Name, b.Name) })
	return list
}

// selects reports whether a service selects a pod. One without a selector selects nothing.
func selects(s *corev1.Service, pod *corev1.Pod) bool {
	return s != nil && s.Namespace == pod.Namespace && s.Spec.Selector != nil &&
		labels.SelectorFromSet(s.Spec.Selector).Matches(labels.Set(pod.Labels))
}

// survey is a priority that looks at all nodes that a pod fits.
type survey struct {
	name  string
	score func(*schedule.PodInfo, schedule.Cluster, []*schedule.NodeInfo) func(*schedule.NodeInfo) int64
}

// Name implements [schedule.Priority].
func (s survey) Name() string { return s.name }

// Score implements [schedule.Priority]. It is not called: see [schedule.Surveyor].
func (survey) Score(*schedule.PodInfo, *schedule.NodeInfo) int64 { return 0 }

// Survey implements [schedule.Surveyor].
func (s survey) Survey(p *schedule.PodInfo, c schedule.Cluster, nodes []*schedule.NodeInfo) func(*schedule.NodeInfo) int64 {
	return s.score(p, c, nodes)
}

// staying returns the number of pods on each node that a selector matches and that are not ending.
func staying(c schedule.Cluster, namespace string, selector labels.Selector) func(*schedule.NodeInfo) int64 {
	if selector.Empty() {
		return func(*schedule.NodeInfo) int64 { return 0 }
	}
	count := c.Count(namespace, selector)
	return func(n *schedule.NodeInfo) int64 {
		m := count.On(n)
		return int64(m.Pods - m.Ending)
	}
}

// shareLeft returns how much of MaxScore is left after part of whole.
func shareLeft(part, whole int64) float64 {
	if whole == 0 {
		return schedule.MaxScore
	}
	return schedule.MaxScore * (float64(whole-part) / float64(whole))
}
