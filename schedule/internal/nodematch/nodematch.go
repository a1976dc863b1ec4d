// Package nodematch says which nodes match the selectors and tolerations of a pod.
package nodematch

import (
	"slices"
	"strconv"

	corev1 "k8s.io/api/core/v1"
)

// Required returns whether a node matches the node selector and the required node affinity of a pod; nil
// if the pod has none.
func Required(spec *corev1.PodSpec) func(*corev1.Node) bool {
	labels := spec.NodeSelector
	var required *corev1.NodeSelector
	if spec.Affinity != nil && spec.Affinity.NodeAffinity != nil {
		required = spec.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution
	}
	if len(labels) == 0 && required == nil {
		return nil
	}
	return func(n *corev1.Node) bool {
		for k, v := range labels {
			if have, ok := n.Labels[k]; !ok || have != v {
				return false
			}
		}
		return required == nil || Selector(required, n)
	}
}

// Selector reports whether any term of a selector matches.
func Selector(s *corev1.NodeSelector, n *corev1.Node) bool {
	return slices.ContainsFunc(s.NodeSelectorTerms, func(t corev1.NodeSelectorTerm) bool { return Term(&t, n) })
}

// Term reports whether all requirements of a term match. An empty term matches no node.
func Term(t *corev1.NodeSelectorTerm, n *corev1.Node) bool {
	if len(t.MatchExpressions) == 0 && len(t.MatchFields) == 0 {
		return false
	}
	for i := range t.MatchExpressions {
		r := &t.MatchExpressions[i]
		value, ok := n.Labels[r.Key]
		if !requirement(r, value, ok) {
			return false
		}
	}
	for i := range t.MatchFields {
		r := &t.MatchFields[i]
		if r.Key != "metadata.name" || !requirement(r, n.Name, true) {
			return false
		}
	}
	return true
}

// requirement reports whether a requirement matches. An invalid one matches nothing.
func requirement(r *corev1.NodeSelectorRequirement, value string, ok bool) bool {
	switch r.Operator {
	case corev1.NodeSelectorOpIn:
		return ok && slices.Contains(r.Values, value)
	case corev1.NodeSelectorOpNotIn:
		return !ok || !slices.Contains(r.Values, value)
	case corev1.NodeSelectorOpExists:
		return ok
	case corev1.NodeSelectorOpDoesNotExist:
		return !ok
	case corev1.NodeSelectorOpGt, corev1.NodeSelectorOpLt:
		if !ok || len(r.Values) != 1 {
			return false
		}
		have, err1 := strconv.ParseInt(value, 10, 64)
		want, err2 := strconv.ParseInt(r.Values[0], 10, 64)
		if err1 != nil || err2 != nil {
			return false
		}
		return r.Operator == corev1.NodeSelectorOpGt && have > want ||
			r.Operator == corev1.NodeSelectorOpLt && have < want
	}
	return false
}
