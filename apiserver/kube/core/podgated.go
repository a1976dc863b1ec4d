package core

import (
	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// narrow lets a pod that waits for its gates have fewer nodes than before: nodeSelector and the required node affinity may
// become stricter, and the preferred one anything. It reports other changes of them, and makes rest equal to old in
// these fields.
func narrow(ps *check.Problems, p *field.Path, rest, old *corev1.PodSpec) {
	for key, value := range old.NodeSelector {
		if now, has := rest.NodeSelector[key]; !has || now != value {
			ps.Add(field.Invalid(p.Child("nodeSelector"), rest.NodeSelector, "only additions to spec.nodeSelector are allowed (no mutations or deletions)"))
			break
		}
	}
	rest.NodeSelector = old.NodeSelector
	now, before := nodeAffinity(rest), nodeAffinity(old)
	if !define.Differ(now, before) {
		return
	}
	checkNarrowed(ps, p.Child("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution", "nodeSelectorTerms"), requiredTerms(now), requiredTerms(before))
	switch {
	case rest.Affinity == nil:
		rest.Affinity = &corev1.Affinity{NodeAffinity: before}
	case old.Affinity == nil && rest.Affinity.PodAffinity == nil && rest.Affinity.PodAntiAffinity == nil:
		rest.Affinity = nil
	default:
		rest.Affinity.NodeAffinity = before
	}
}

func nodeAffinity(spec *corev1.PodSpec) *corev1.NodeAffinity {
	if spec.Affinity == nil {
		return nil
	}
	return spec.Affinity.NodeAffinity
}

func requiredTerms(a *corev1.NodeAffinity) []corev1.NodeSelectorTerm {
	if a == nil || a.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return nil
	}
	return a.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
}

// checkNarrowed checks that terms, of which a node needs one, have only more requirements than before.
func checkNarrowed(ps *check.Problems, at *field.Path, now, before []corev1.NodeSelectorTerm) {
	if len(before) == 0 {
		return
	}
	if len(now) != len(before) {
		ps.Add(field.Invalid(at, now, "no additions/deletions to non-empty NodeSelectorTerms list are allowed"))
		return
	}
	for i := range before {
		a, b := &now[i], &before[i]
		none := len(b.MatchExpressions) == 0 && len(b.MatchFields) == 0 // which matches nothing
		wider := none && (len(a.MatchExpressions) > 0 || len(a.MatchFields) > 0)
		if wider || !begins(a.MatchExpressions, b.MatchExpressions) || !begins(a.MatchFields, b.MatchFields) {
			ps.Add(field.Invalid(at.Index(i), *a, "only additions are allowed (no mutations or deletions)"))
		}
	}
}

// begins reports whether list begins with first.
func begins(list, first []corev1.NodeSelectorRequirement) bool {
	return len(list) >= len(first) && !define.Differ(list[:len(first)], first)
}
