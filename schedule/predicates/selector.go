package predicates

import (
	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/internal/nodematch"
	corev1 "k8s.io/api/core/v1"
)

// NodeSelector refuses nodes that do not match the pod's nodeSelector or its
// required node affinity.
// https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/
func NodeSelector() schedule.Predicate { return NodeSelectorAnd(nil) }

// NodeSelectorAnd is NodeSelector for a scheduler whose pods run only on the nodes that enforced selects: the
// required part of addedAffinity in the configuration of the kube-scheduler. Nil selects all nodes.
func NodeSelectorAnd(enforced *corev1.NodeSelector) schedule.Predicate {
	mismatch := schedule.RefuseAlways("node(s) didn't match Pod's node affinity/selector")
	unselected := schedule.RefuseAlways("node(s) didn't match scheduler-enforced node affinity")
	selected := nodematch.Selector(enforced)
	return compiled{"NodeAffinity", nodes, func(p *schedule.PodInfo) func(*schedule.NodeInfo) schedule.Verdict {
		match := nodematch.Required(&p.Pod.Spec)
		if match == nil && enforced == nil {
			return nil
		}
		return func(n *schedule.NodeInfo) schedule.Verdict {
			switch {
			case enforced != nil && !selected(n.Node):
				return unselected
			case match != nil && !match(n.Node):
				return mismatch
			}
			return schedule.Fits
		}
	}}
}
