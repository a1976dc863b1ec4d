package podspec

import (
	"slices"

	"github.com/planekit/planekit/apiserver/kube/internal/check"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// MergeLabelKeys adds the values of the pod's labels that matchLabelKeys and mismatchLabelKeys name to the
// selectors beside them, when the pod is created. So a later change of its labels does not matter.
func MergeLabelKeys(spec *corev1.PodSpec, labels map[string]string) {
	for i := range spec.TopologySpreadConstraints {
		c := &spec.TopologySpreadConstraints[i]
		addLabelKeys(c.LabelSelector, c.MatchLabelKeys, metav1.LabelSelectorOpIn, labels)
	}
	merge := func(hard []corev1.PodAffinityTerm, soft []corev1.WeightedPodAffinityTerm) {
		for i := range hard {
			mergeTerm(&hard[i], labels)
		}
		for i := range soft {
			mergeTerm(&soft[i].PodAffinityTerm, labels)
		}
	}
	if spec.Affinity == nil {
		return
	}
	if a := spec.Affinity.PodAffinity; a != nil {
		merge(a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution)
	}
	if a := spec.Affinity.PodAntiAffinity; a != nil {
		merge(a.RequiredDuringSchedulingIgnoredDuringExecution, a.PreferredDuringSchedulingIgnoredDuringExecution)
	}
}

func mergeTerm(t *corev1.PodAffinityTerm, labels map[string]string) {
	addLabelKeys(t.LabelSelector, t.MatchLabelKeys, metav1.LabelSelectorOpIn, labels)
	addLabelKeys(t.LabelSelector, t.MismatchLabelKeys, metav1.LabelSelectorOpNotIn, labels)
}

// addLabelKeys adds a requirement for each key that labels has. A missing selector matches nothing, and
// stays so.
func addLabelKeys(selector *metav1.LabelSelector, keys []string, operator metav1.LabelSelectorOperator, labels map[string]string) {
	if selector == nil {
		return
	}
	for _, key := range keys {
		if value, ok := labels[key]; ok {
			selector.MatchExpressions = append(selector.MatchExpressions, metav1.LabelSelectorRequirement{Key: key, Operator: operator, Values: []string{value}})
		}
	}
}

// checkLabelKeys checks keys whose values are merged into a selector.
func checkLabelKeys(ps *check.Problems, p *field.Path, match, mismatch []string, selector *metav1.LabelSelector) {
	for _, list := range []struct {
		path string
		keys []string
	}{{"matchLabelKeys", match}, {"mismatchLabelKeys", mismatch}} {
		if len(list.keys) > 0 && selector == nil {
			ps.Add(field.Forbidden(p.Child(list.path), "must not be specified when labelSelector is not set"))
			continue
		}
		for i, key := range list.keys {
			ps.All(metavalidation.ValidateLabelName(key, p.Child(list.path).Index(i)))
		}
	}
	checkTwice(ps, p, match, selector)
	for i, key := range match {
		if slices.Contains(mismatch, key) {
			ps.Add(field.Invalid(p.Child("matchLabelKeys").Index(i), key, "exists in both matchLabelKeys and mismatchLabelKeys"))
		}
	}
}

// checkTwice refuses a key of match that the selector has, too. When it is called, the selector has the
// key once if it was merged.
func checkTwice(ps *check.Problems, p *field.Path, match []string, selector *metav1.LabelSelector) {
	if selector == nil {
		return
	}
	seen := map[string]bool{}
	for key := range selector.MatchLabels {
		seen[key] = true
	}
	for _, e := range selector.MatchExpressions {
		if i := slices.Index(match, e.Key); i >= 0 && seen[e.Key] {
			ps.Add(field.Invalid(p.Index(i), e.Key, "exists in both matchLabelKeys and labelSelector"))
		}
		seen[e.Key] = true
	}
}
