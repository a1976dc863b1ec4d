package schedule

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// SpreadDefaults are the topology spread constraints of pods that have none of their own.
type SpreadDefaults struct {
	// Constraints have no LabelSelector. Nil means those of Kubernetes: spread over nodes with a skew of
	// 3 and over zones with a skew of 5, where that is possible.
	Constraints []corev1.TopologySpreadConstraint
	// Selector returns which pods belong together with a pod: those of its services and of its
	// controller. Nil means that pods without constraints are not spread, and so does an empty
	// selector.
	Selector func(*corev1.Pod) labels.Selector
}
