package runtimeclass

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// merge joins two lists of tolerations and leaves out those that another one covers. Of equal ones
// the first stays.
func merge(first, second []corev1.Toleration) []corev1.Toleration {
	all := slices.Concat(first, second)
	var merged []corev1.Toleration
	for i := range all {
		t := &all[i]
		earlier := slices.ContainsFunc(merged, func(m corev1.Toleration) bool { return covers(&m, t) })
		later := slices.ContainsFunc(all[i+1:], func(m corev1.Toleration) bool {
			return !equality.Semantic.DeepEqual(&m, t) && covers(&m, t)
		})
		if !earlier && !later {
			merged = append(merged, *t.DeepCopy())
		}
	}
	return merged
}

// covers reports whether wide tolerates every taint that narrow does, for at least as long.
func covers(wide, narrow *corev1.Toleration) bool {
	if equality.Semantic.DeepEqual(wide, narrow) {
		return true
	}
	everyKey := wide.Key == "" && wide.Operator == corev1.TolerationOpExists
	if wide.Key != narrow.Key && !everyKey {
		return false
	}
	if wide.Effect != narrow.Effect && wide.Effect != "" {
		return false
	}
	if wide.Effect == corev1.TaintEffectNoExecute && wide.TolerationSeconds != nil &&
		(narrow.TolerationSeconds == nil || *narrow.TolerationSeconds > *wide.TolerationSeconds) {
		return false
	}
	switch wide.Operator {
	case corev1.TolerationOpExists:
		return true
	case corev1.TolerationOpEqual, "":
		// As in Kubernetes, an omitted operator of narrow is not the same as Equal.
		return narrow.Operator == corev1.TolerationOpEqual && wide.Value == narrow.Value
	}
	return false
}
