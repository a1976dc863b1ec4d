package podspec_test

import (
	"testing"

	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/podspec"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestMergeLabelKeys checks that the pod's labels reach the selectors beside the keys, and that what has no
// selector, or no such label, stays as it is.
func TestMergeLabelKeys(t *testing.T) {
	term := func() corev1.PodAffinityTerm {
		return corev1.PodAffinityTerm{LabelSelector: &metav1.LabelSelector{}, MatchLabelKeys: []string{"app", "absent"}, MismatchLabelKeys: []string{"tenant"}}
	}
	spec := corev1.PodSpec{
		TopologySpreadConstraints: []corev1.TopologySpreadConstraint{
			{LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"tier": "front"}}, MatchLabelKeys: []string{"app"}},
			{MatchLabelKeys: []string{"app"}},
		},
		Affinity: &corev1.Affinity{
			PodAffinity: &corev1.PodAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution:  []corev1.PodAffinityTerm{term()},
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{PodAffinityTerm: term()}},
			},
			PodAntiAffinity: &corev1.PodAntiAffinity{
				RequiredDuringSchedulingIgnoredDuringExecution:  []corev1.PodAffinityTerm{term()},
				PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{PodAffinityTerm: term()}},
			},
		},
	}
	podspec.MergeLabelKeys(&spec, map[string]string{"app": "web", "tenant": "a"})
	spread, affinity := spec.TopologySpreadConstraints, spec.Affinity
	const both = "app in (web),tenant notin (a)"
	for what, test := range map[string]struct {
		selector *metav1.LabelSelector
		want     string
	}{
		"constraint":                    {spread[0].LabelSelector, "app in (web),tier=front"},
		"constraint without a selector": {spread[1].LabelSelector, "<none>"},
		"required":                      {affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector, both},
		"preferred":                     {affinity.PodAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].PodAffinityTerm.LabelSelector, both},
		"required anti":                 {affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[0].LabelSelector, both},
		"preferred anti":                {affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution[0].PodAffinityTerm.LabelSelector, both},
	} {
		if got := metav1.FormatLabelSelector(test.selector); got != test.want {
			t.Errorf("%s: %s, want %s", what, got, test.want)
		}
	}
}

// TestLabelKeysAreChecked checks what is refused after the labels were merged, in kube-apiserver's words.
func TestLabelKeysAreChecked(t *testing.T) {
	selector := func() *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
	}
	for _, test := range []struct {
		constraint corev1.TopologySpreadConstraint
		want       string
	}{
		{corev1.TopologySpreadConstraint{LabelSelector: selector(), MatchLabelKeys: []string{"tenant", "absent"}}, ""},
		{corev1.TopologySpreadConstraint{LabelSelector: selector(), MatchLabelKeys: []string{"app"}},
			`spec.topologySpreadConstraints[0][0]: Invalid value: "app": exists in both matchLabelKeys and labelSelector`},
		{corev1.TopologySpreadConstraint{MatchLabelKeys: []string{"app"}},
			"spec.topologySpreadConstraints[0].matchLabelKeys: Forbidden: must not be specified when labelSelector is not set"},
	} {
		test.constraint.MaxSkew, test.constraint.TopologyKey, test.constraint.WhenUnsatisfiable = 1, corev1.LabelHostname, corev1.DoNotSchedule
		spec := corev1.PodSpec{Containers: []corev1.Container{{Name: "web", Image: "nginx"}}, TopologySpreadConstraints: []corev1.TopologySpreadConstraint{test.constraint}}
		podspec.Default(&spec)
		podspec.MergeLabelKeys(&spec, map[string]string{"app": "web", "tenant": "a"})
		var ps check.Problems
		podspec.Check(&ps, field.NewPath("spec"), &spec)
		got := ""
		if err := ps.List.ToAggregate(); err != nil {
			got = err.Error()
		}
		if got != test.want {
			t.Errorf("%+v: %q, want %q", test.constraint, got, test.want)
		}
	}
}
