package policy

import (
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/column"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	"github.com/planekit/planekit/kinds"
	policyv1 "k8s.io/api/policy/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// PodDisruptionBudgets returns the resource of the kind PodDisruptionBudget.
func PodDisruptionBudgets() apiserver.Resource {
	type budget = policyv1.PodDisruptionBudget
	spec, state := policyv1.PodDisruptionBudgetSpec{}.SwaggerDoc(), policyv1.PodDisruptionBudgetStatus{}.SwaggerDoc()
	r := apiserver.For(kinds.PodDisruptionBudgets, apiserver.Resource{
		Conditional: true,
		Strategy: define.Strategy[*budget]{
			Counted:        func(b *budget) any { return &b.Spec },
			Create:         func(b *budget) { b.Status = policyv1.PodDisruptionBudgetStatus{} },
			Update:         func(b, old *budget) { old.Status.DeepCopyInto(&b.Status) },
			Validate:       validateBudget,
			ValidateUpdate: func(b, _ *budget) field.ErrorList { return validateBudget(b) },
		}.Erase(),
		Columns: []apiserver.Column{
			column.Text("Min Available", spec["minAvailable"], func(b *budget) string { return shareText(b.Spec.MinAvailable) }),
			column.Text("Max Unavailable", spec["maxUnavailable"], func(b *budget) string { return shareText(b.Spec.MaxUnavailable) }),
			column.Number("Allowed Disruptions", state["disruptionsAllowed"], func(b *budget) int64 { return int64(b.Status.DisruptionsAllowed) }),
			column.Age[*budget](),
		},
		Subresources: []apiserver.Subresource{
			define.Status(define.Strategy[*budget]{
				Update:         func(b, old *budget) { old.Spec.DeepCopyInto(&b.Spec) },
				ValidateUpdate: func(b, _ *budget) field.ErrorList { return validateBudgetStatus(b) },
			}),
		},
	})
	r.Strategy.ValidateName = apiserver.PathSegmentName
	return r
}

func shareText(n *intstr.IntOrString) string {
	if n == nil {
		return "N/A"
	}
	return n.String()
}

func validateBudget(b *policyv1.PodDisruptionBudget) field.ErrorList {
	var ps check.Problems
	p, s := field.NewPath("spec"), &b.Spec
	ps.Valid(s.MinAvailable == nil || s.MaxUnavailable == nil, p, *s, "minAvailable and maxUnavailable cannot be both set")
	for _, share := range []struct {
		path  string
		value *intstr.IntOrString
	}{{"minAvailable", s.MinAvailable}, {"maxUnavailable", s.MaxUnavailable}} {
		check.IntOrPercent(&ps, p.Child(share.path), share.value)
		check.AtMostAll(&ps, p.Child(share.path), share.value)
	}
	if s.Selector != nil {
		ps.Selector(p.Child("selector"), s.Selector)
	}
	if s.UnhealthyPodEvictionPolicy != nil {
		check.OneOf(&ps, p.Child("unhealthyPodEvictionPolicy"), *s.UnhealthyPodEvictionPolicy, policyv1.AlwaysAllow, policyv1.IfHealthyBudget)
	}
	return ps.List
}

func validateBudgetStatus(b *policyv1.PodDisruptionBudget) field.ErrorList {
	var ps check.Problems
	p, s := field.NewPath("status"), &b.Status
	ps.All(metavalidation.ValidateConditions(s.Conditions, p.Child("conditions")))
	for _, c := range []check.Count{
		{Path: "disruptionsAllowed", Value: s.DisruptionsAllowed}, {Path: "currentHealthy", Value: s.CurrentHealthy},
		{Path: "desiredHealthy", Value: s.DesiredHealthy}, {Path: "expectedPods", Value: s.ExpectedPods},
	} {
		ps.NotNegative(p.Child(c.Path), int64(c.Value))
	}
	return ps.List
}
