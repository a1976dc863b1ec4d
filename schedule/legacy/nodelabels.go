package legacy

import (
	"maps"

	"github.com/planekit/planekit/schedule"
	corev1 "k8s.io/api/core/v1"
)

// NodeLabels refuses nodes without one of the present labels, or with one of the absent ones, whatever their
// values: CheckNodeLabelPresence.
func NodeLabels(present, absent []string) schedule.Predicate { return nodeLabels{present, absent} }

type nodeLabels struct{ present, absent []string }

var unlabeled = schedule.RefuseAlways("node(s) didn't have the requested labels")

func (nodeLabels) Name() string { return "NodeLabel" }

// Filter implements [schedule.Predicate].
func (l nodeLabels) Filter(_ *schedule.PodInfo, n *schedule.NodeInfo) schedule.Verdict {
	for _, label := range l.present {
		if _, ok := n.Node.Labels[label]; !ok {
			return unlabeled
		}
	}
	for _, label := range l.absent {
		if _, ok := n.Node.Labels[label]; ok {
			return unlabeled
		}
	}
	return schedule.Fits
}

// Wakes implements [schedule.Waker].
func (nodeLabels) Wakes(_ *schedule.PodInfo, e schedule.Event) bool { return relabels(e) }

// relabels reports whether an event is about the labels of a node.
func relabels(e schedule.Event) bool {
	old, now, ok := schedule.Changed[*corev1.Node](e)
	return ok && (old == nil || now == nil || !maps.Equal(old.Labels, now.Labels))
}

// LabelPreference prefers nodes that have a label, or with presence false those that do not.
func LabelPreference(label string, presence bool) schedule.Priority {
	return schedule.PriorityFunc("NodeLabel", func(_ *schedule.PodInfo, n *schedule.NodeInfo) int64 {
		if _, ok := n.Node.Labels[label]; ok == presence {
			return schedule.MaxScore
		}
		return 0
	})
}
