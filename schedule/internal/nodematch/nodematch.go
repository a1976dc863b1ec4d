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
	matches := Selector(required)
	return func(n *corev1.Node) bool {
		for k, v := range labels {
			if have, ok := n.Labels[k]; !ok || have != v {
				return false
			}
		}
		return required == nil || matches(n)
	}
}

// Selector returns whether any term of a selector matches a node. Nil matches none.
func Selector(s *corev1.NodeSelector) func(*corev1.Node) bool {
	var terms []term
	if s != nil {
		terms = make([]term, len(s.NodeSelectorTerms))
		for i := range terms {
			terms[i] = newTerm(&s.NodeSelectorTerms[i])
		}
	}
	return func(n *corev1.Node) bool {
		for i := range terms {
			if terms[i].matches(n) {
				return true
			}
		}
		return false
	}
}

// Term returns whether all requirements of a term match a node. An empty term matches no node.
func Term(t *corev1.NodeSelectorTerm) func(*corev1.Node) bool {
	made := newTerm(t)
	return made.matches
}

// A term matches if all of its requirements do, of labels and of fields.
type term struct{ labels, fields []requirement }

// A requirement is one of a term. Long lists of values are sets, so that a pod may name all nodes of a large cluster.
type requirement struct {
	*corev1.NodeSelectorRequirement
	set map[string]struct{} // nil if the list is short
}

// longList is the number of values from which on a set is faster than a list.
const longList = 16

func newTerm(t *corev1.NodeSelectorTerm) term {
	return term{newRequirements(t.MatchExpressions), newRequirements(t.MatchFields)}
}

func newRequirements(list []corev1.NodeSelectorRequirement) []requirement {
	made := make([]requirement, len(list))
	for i := range list {
		made[i].NodeSelectorRequirement = &list[i]
		if len(list[i].Values) >= longList {
			made[i].set = make(map[string]struct{}, len(list[i].Values))
			for _, v := range list[i].Values {
				made[i].set[v] = struct{}{}
			}
		}
	}
	return made
}

func (t *term) matches(n *corev1.Node) bool {
	for i := range t.labels {
		r := &t.labels[i]
		value, ok := n.Labels[r.Key]
		if !r.matches(value, ok) {
			return false
		}
	}
	for i := range t.fields {
		r := &t.fields[i]
		if r.Key != "metadata.name" || !r.matches(n.Name, true) {
			return false
		}
	}
	return len(t.labels)+len(t.fields) > 0
}

// lists reports whether a value is one of the requirement's.
func (r *requirement) lists(value string) bool {
	if r.set == nil {
		return slices.Contains(r.Values, value)
	}
	_, ok := r.set[value]
	return ok
}

// matches reports whether a requirement matches. An invalid one matches nothing.
func (r *requirement) matches(value string, ok bool) bool {
	switch r.Operator {
	case corev1.NodeSelectorOpIn:
		return ok && r.lists(value)
	case corev1.NodeSelectorOpNotIn:
		return !ok || !r.lists(value)
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
