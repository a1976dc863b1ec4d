package admission

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// matchesNode reports whether the node has the labels that the pod's nodeSelector and its required
// node affinity ask for.
// https://kubernetes.io/docs/concepts/scheduling-eviction/assign-pod-node/
func matchesNode(r Request) bool {
	spec := &r.Pod.Spec
	for key, want := range spec.NodeSelector {
		if have, ok := r.Node.Labels[key]; !ok || have != want {
			return false
		}
	}
	if spec.Affinity == nil || spec.Affinity.NodeAffinity == nil || spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return true
	}
	terms := spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	return slices.ContainsFunc(terms, func(t corev1.NodeSelectorTerm) bool { return matchesTerm(&t, r.Node) })
}

// matchesTerm reports whether all requirements of a term match. An empty term matches no node.
func matchesTerm(t *corev1.NodeSelectorTerm, node *corev1.Node) bool {
	for i := range t.MatchExpressions {
		value, ok := node.Labels[t.MatchExpressions[i].Key]
		if !matches(&t.MatchExpressions[i], value, ok) {
			return false
		}
	}
	for i := range t.MatchFields {
		if t.MatchFields[i].Key != "metadata.name" || !matches(&t.MatchFields[i], node.Name, true) {
			return false
		}
	}
	return len(t.MatchExpressions)+len(t.MatchFields) > 0
}

// matches reports whether a value, if there is one, meets a requirement. An invalid requirement is
// met by nothing.
func matches(r *corev1.NodeSelectorRequirement, value string, exists bool) bool {
	switch r.Operator {
	case corev1.NodeSelectorOpIn:
		return exists && slices.Contains(r.Values, value)
	case corev1.NodeSelectorOpNotIn:
		return !exists || !slices.Contains(r.Values, value)
	case corev1.NodeSelectorOpExists:
		return exists
	case corev1.NodeSelectorOpDoesNotExist:
		return !exists
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if !exists || len(r.Values) != 1 {
			return false
		}
		have, err := strconv.ParseInt(value, 10, 64)
		want, wantErr := strconv.ParseInt(r.Values[0], 10, 64)
		if err != nil || wantErr != nil {
			return false
		}
		return r.Operator == corev1.NodeSelectorOpGt && have > want || r.Operator == corev1.NodeSelectorOpLt && have < want
	}
	return false
}
