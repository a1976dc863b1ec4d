package predicates

import (
	"fmt"

	"github.com/planekit/planekit/schedule"
	corev1 "k8s.io/api/core/v1"
)

// Unsupported refuses every node for a pod with a hard constraint that this package does not
// support, or with more terms than schedule.MaxTerms or schedule.MaxNodeTerms. Such a pod stays pending, and its condition
// and event name the constraint.
func Unsupported() schedule.Predicate {
	return compiled{"Unsupported", never, func(p *schedule.PodInfo) func(*schedule.NodeInfo) schedule.Verdict {
		var reasons []string
		for _, c := range unjudged {
			if c.has(&p.Pod.Spec) {
				reasons = append(reasons, "node(s) could not be judged: "+c.name+" is not supported yet")
			}
		}
		if schedule.TooManyTerms(p.Pod) {
			reasons = append(reasons, fmt.Sprintf("node(s) could not be judged: the pod has more than %d affinity terms and topology spread constraints", schedule.MaxTerms))
		}
		if schedule.TooManyNodeTerms(p.Pod) {
			reasons = append(reasons, fmt.Sprintf("node(s) could not be judged: the pod has more than %d requirements of node affinity and tolerations, once for each topology spread constraint", schedule.MaxNodeTerms))
		}
		if reasons == nil {
			return nil
		}
		refused := schedule.RefuseAlways(reasons...)
		return func(*schedule.NodeInfo) schedule.Verdict { return refused }
	}}
}

// unjudged lists the unsupported hard constraints.
var unjudged = []struct {
	name string
	has  func(*corev1.PodSpec) bool
}{
	{"a resource claim", func(s *corev1.PodSpec) bool { return len(s.ResourceClaims) > 0 }},
	{"a scheduling group", func(s *corev1.PodSpec) bool { return s.SchedulingGroup != nil }},
}
