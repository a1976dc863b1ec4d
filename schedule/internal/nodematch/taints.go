package nodematch

import (
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// Admits reports whether the tolerations cover all taints that keep pods off a node: those of effect
// NoSchedule and NoExecute.
func Admits(n *corev1.Node, tolerations []corev1.Toleration) bool {
	for i := range n.Spec.Taints {
		if t := &n.Spec.Taints[i]; t.Effect != corev1.TaintEffectPreferNoSchedule && !Tolerated(tolerations, t) {
			return false
		}
	}
	return true
}

// Tolerated reports whether one of the tolerations matches a taint.
func Tolerated(tolerations []corev1.Toleration, taint *corev1.Taint) bool {
	for i := range tolerations {
		if tolerates(&tolerations[i], taint) {
			return true
		}
	}
	return false
}

// tolerates reports whether a toleration matches a taint. An empty effect matches all effects, and
// an empty key with Exists all keys. Lt and Gt compare the taint's value with the toleration's as decimal
// numbers. An unknown operator, and a value that is no number, match nothing.
func tolerates(t *corev1.Toleration, taint *corev1.Taint) bool {
	if t.Effect != "" && t.Effect != taint.Effect || t.Key != "" && t.Key != taint.Key {
		return false
	}
	switch t.Operator {
	case corev1.TolerationOpExists:
		return true
	case "", corev1.TolerationOpEqual:
		return t.Key != "" && t.Value == taint.Value
	case corev1.TolerationOpLt, corev1.TolerationOpGt:
		limit, err := strconv.ParseInt(t.Value, 10, 64)
		value, taintErr := strconv.ParseInt(taint.Value, 10, 64)
		if err != nil || taintErr != nil || t.Key == "" {
			return false
		}
		return t.Operator == corev1.TolerationOpLt && value < limit || t.Operator == corev1.TolerationOpGt && value > limit
	}
	return false
}
