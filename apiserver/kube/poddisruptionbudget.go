package kube

import (
	"github.com/planekit/planekit/apiserver"
	policyv1 "k8s.io/api/policy/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func podDisruptionBudgets() apiserver.Resource {
	type budget = policyv1.PodDisruptionBudget
	spec, state := policyv1.PodDisruptionBudgetSpec{}.SwaggerDoc(), policyv1.PodDisruptionBudgetStatus{}.SwaggerDoc()
	return apiserver.Resource{
		Group:      policyv1.GroupName,
		Version:    "v1",
		Kind:       "PodDisruptionBudget",
		Plural:     "poddisruptionbudgets",
		ShortNames: []string{"pdb"},
		Namespaced: true,
		New:        func() runtime.Object { return &budget{} },
		NewList:    func() runtime.Object { return &policyv1.PodDisruptionBudgetList{} },
		Strategy: strategy[*budget]{
			create: func(b *budget) {
				b.Status = policyv1.PodDisruptionBudgetStatus{}
				b.Generation = 1
			},
			update: func(b, old *budget) {
				old.Status.DeepCopyInto(&b.Status)
				b.Generation = nextGeneration(old.Generation, differ(&b.Spec, &old.Spec))
			},
			validate:       validateBudget,
			validateUpdate: func(b, _ *budget) field.ErrorList { return validateBudget(b) },
		}.erase(),
		Columns: []apiserver.Column{
			text("Min Available", spec["minAvailable"], func(b *budget) string { return shareText(b.Spec.MinAvailable) }),
			text("Max Unavailable", spec["maxUnavailable"], func(b *budget) string { return shareText(b.Spec.MaxUnavailable) }),
			number("Allowed Disruptions", state["disruptionsAllowed"], func(b *budget) int64 { return int64(b.Status.DisruptionsAllowed) }),
			age[*budget](),
		},
		Subresources: []apiserver.Subresource{
			status(strategy[*budget]{
				update:         func(b, old *budget) { old.Spec.DeepCopyInto(&b.Spec) },
				validateUpdate: func(b, _ *budget) field.ErrorList { return validateBudgetStatus(b) },
			}),
		},
	}
}

func shareText(n *intstr.IntOrString) string {
	if n == nil {
		return "N/A"
	}
	return n.String()
}

func validateBudget(b *policyv1.PodDisruptionBudget) field.ErrorList {
	var ps problems
	p, s := field.NewPath("spec"), &b.Spec
	ps.valid(s.MinAvailable == nil || s.MaxUnavailable == nil, p, *s, "minAvailable and maxUnavailable cannot be both set")
	for _, share := range []struct {
		path  string
		value *intstr.IntOrString
	}{{"minAvailable", s.MinAvailable}, {"maxUnavailable", s.MaxUnavailable}} {
		checkShare(&ps, p.Child(share.path), share.value)
		checkWhole(&ps, p.Child(share.path), share.value)
	}
	if s.Selector != nil {
		ps.selector(p.Child("selector"), s.Selector)
	}
	if s.UnhealthyPodEvictionPolicy != nil {
		oneOf(&ps, p.Child("unhealthyPodEvictionPolicy"), *s.UnhealthyPodEvictionPolicy, policyv1.AlwaysAllow, policyv1.IfHealthyBudget)
	}
	return ps.list
}

func validateBudgetStatus(b *policyv1.PodDisruptionBudget) field.ErrorList {
	var ps problems
	p, s := field.NewPath("status"), &b.Status
	ps.all(metavalidation.ValidateConditions(s.Conditions, p.Child("conditions")))
	for _, c := range []count{
		{"disruptionsAllowed", s.DisruptionsAllowed}, {"currentHealthy", s.CurrentHealthy},
		{"desiredHealthy", s.DesiredHealthy}, {"expectedPods", s.ExpectedPods},
	} {
		ps.notNegative(p.Child(c.path), int64(c.value))
	}
	return ps.list
}
