package predicates

import (
	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/internal/nodematch"
)

// NodeSelector refuses nodes that do not match the pod's nodeSelector or its
// required node affinity.
// https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/
func NodeSelector() schedule.Predicate {
	mismatch := schedule.RefuseAlways("node(s) didn't match Pod's node affinity/selector")
	return compiled{"NodeAffinity", nodes, func(p *schedule.PodInfo) func(*schedule.NodeInfo) schedule.Verdict {
		match := nodematch.Required(&p.Pod.Spec)
		if match == nil {
			return nil
		}
		return func(n *schedule.NodeInfo) schedule.Verdict {
			if !match(n.Node) {
				return mismatch
			}
			return schedule.Fits
		}
	}}
}
