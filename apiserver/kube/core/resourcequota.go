package core

import (
	"fmt"
	"slices"
	"strings"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/column"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	"github.com/planekit/planekit/apiserver/kube/internal/podspec"
	"github.com/planekit/planekit/kinds"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ResourceQuotas returns the resource of the kind ResourceQuota.
func ResourceQuotas() apiserver.Resource {
	type quota = corev1.ResourceQuota
	return apiserver.For(kinds.ResourceQuotas, apiserver.Resource{
		Strategy: define.Strategy[*quota]{
			Default: func(q *quota) {
				podspec.RoundUp(q.Spec.Hard)
				podspec.RoundUp(q.Status.Hard)
				podspec.RoundUp(q.Status.Used)
			},
			Create:   func(q *quota) { q.Status = corev1.ResourceQuotaStatus{} },
			Update:   func(q, old *quota) { old.Status.DeepCopyInto(&q.Status) },
			Validate: validateQuota,
			ValidateUpdate: func(q, old *quota) field.ErrorList {
				ps := check.Problems{List: validateQuota(&quota{Spec: q.Spec})}
				now, was := slices.Sorted(slices.Values(q.Spec.Scopes)), slices.Sorted(slices.Values(old.Spec.Scopes))
				ps.Valid(slices.Equal(slices.Compact(now), slices.Compact(was)), field.NewPath("spec", "scopes"), q.Spec.Scopes, "field is immutable")
				return ps.List
			},
		}.Erase(),
		Columns: []apiserver.Column{
			column.Text("Request", "Request represents a minimum amount of cpu/memory that a container may consume.",
				func(q *quota) string { return quotaText(q, false) }),
			column.Text("Limit", "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node.",
				func(q *quota) string { return quotaText(q, true) }),
			column.Age[*quota](),
		},
		Subresources: []apiserver.Subresource{
			define.Status(define.Strategy[*quota]{
				Update:         func(q, old *quota) { old.Spec.DeepCopyInto(&q.Spec) },
				ValidateUpdate: func(q, _ *quota) field.ErrorList { return validateQuota(&quota{Status: q.Status}) },
			}),
		},
	})
}

func quotaText(q *corev1.ResourceQuota, limits bool) string {
	var out []string
	for _, name := range check.SortedKeys(q.Status.Hard) {
		if strings.HasPrefix(string(name), "limits.") == limits {
			used, hard := q.Status.Used[name], q.Status.Hard[name]
			out = append(out, fmt.Sprintf("%s: %s/%s", name, &used, &hard))
		}
	}
	return strings.Join(out, ", ")
}

func validateQuota(q *corev1.ResourceQuota) field.ErrorList {
	var ps check.Problems
	p := field.NewPath("spec")
	checkQuotaAmounts(&ps, p.Child("hard"), q.Spec.Hard)
	checkScopes(&ps, p, &q.Spec)
	if q.Spec.ScopeSelector != nil {
		checkScopeSelector(&ps, p, &q.Spec)
	}
	checkQuotaAmounts(&ps, field.NewPath("status", "hard"), q.Status.Hard)
	checkQuotaAmounts(&ps, field.NewPath("status", "used"), q.Status.Used)
	return ps.List
}

func checkQuotaAmounts(ps *check.Problems, p *field.Path, list corev1.ResourceList) {
	for _, name := range check.SortedKeys(list) {
		at := p.Key(string(name))
		resourceName(ps, at, name)
		ps.Valid(strings.Contains(string(name), "/") || quotaResource(name), at, name, "must be a standard resource for quota")
		podspec.CheckAmount(ps, at, name, list[name])
	}
}

// Resources by what counts them.
var (
	podCounts = []corev1.ResourceName{corev1.ResourcePods}
	podSums   = []corev1.ResourceName{
		corev1.ResourceCPU, corev1.ResourceMemory, corev1.ResourceLimitsCPU, corev1.ResourceLimitsMemory,
		corev1.ResourceRequestsCPU, corev1.ResourceRequestsMemory,
	}
	claimSums = []corev1.ResourceName{corev1.ResourcePersistentVolumeClaims, corev1.ResourceRequestsStorage}
)

// scopeResources maps a scope to the resources that a quota with it can count.
var scopeResources = map[corev1.ResourceQuotaScope][]corev1.ResourceName{
	corev1.ResourceQuotaScopeTerminating:               slices.Concat(podCounts, podSums),
	corev1.ResourceQuotaScopeNotTerminating:            slices.Concat(podCounts, podSums),
	corev1.ResourceQuotaScopeNotBestEffort:             slices.Concat(podCounts, podSums),
	corev1.ResourceQuotaScopePriorityClass:             slices.Concat(podCounts, podSums),
	corev1.ResourceQuotaScopeCrossNamespacePodAffinity: slices.Concat(podCounts, podSums),
	corev1.ResourceQuotaScopeBestEffort:                podCounts,
	corev1.ResourceQuotaScopeVolumeAttributesClass:     claimSums,
}

// quotaResource reports whether n, which has no domain, can have a quota.
func quotaResource(n corev1.ResourceName) bool {
	return n != corev1.ResourceStorage && standardResource(n)
}

// standardResource reports whether n is known without a domain.
func standardResource(n corev1.ResourceName) bool {
	return n == corev1.ResourceCPU || n == corev1.ResourceMemory || n == corev1.ResourceEphemeralStorage ||
		slices.Contains(podspec.QuotaNames, n) || slices.Contains(podspec.ObjectNames, n) ||
		podspec.IsHugePages(n) || strings.HasPrefix(string(n), corev1.ResourceRequestsHugePagesPrefix)
}

func checkScopes(ps *check.Problems, p *field.Path, spec *corev1.ResourceQuotaSpec) {
	at := p.Child("scopes")
	for _, scope := range spec.Scopes {
		_, ok := scopeResources[scope]
		ps.Valid(ok, at, spec.Scopes, "unsupported scope")
		checkScoped(ps, at, spec.Scopes, scope, spec.Hard)
	}
	checkScopePairs(ps, at, spec.Scopes, spec.Scopes)
}

// checkScoped refuses what a quota of scope cannot count.
func checkScoped(ps *check.Problems, p *field.Path, shown any, scope corev1.ResourceQuotaScope, hard corev1.ResourceList) {
	for _, name := range check.SortedKeys(hard) {
		can, ok := scopeResources[scope]
		ps.Valid(!ok || !quotaResource(name) || slices.Contains(can, name), p, shown, "unsupported scope applied to resource")
	}
}

func checkScopePairs(ps *check.Problems, p *field.Path, scopes, shown []corev1.ResourceQuotaScope) {
	for _, pair := range [][2]corev1.ResourceQuotaScope{
		{corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort},
		{corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating},
	} {
		ps.Valid(!slices.Contains(scopes, pair[0]) || !slices.Contains(scopes, pair[1]), p, shown, "conflicting scopes")
	}
}

func checkScopeSelector(ps *check.Problems, p *field.Path, spec *corev1.ResourceQuotaSpec) {
	at := p.Child("scopeSelector", "matchExpressions")
	var scopes []corev1.ResourceQuotaScope
	for _, r := range spec.ScopeSelector.MatchExpressions {
		scopes = append(scopes, r.ScopeName)
		_, ok := scopeResources[r.ScopeName]
		ps.Valid(ok, at.Child("scopeName"), r.ScopeName, "unsupported scope")
		checkScoped(ps, at, spec.ScopeSelector, r.ScopeName, spec.Hard)
		valued := r.ScopeName == corev1.ResourceQuotaScopePriorityClass || r.ScopeName == corev1.ResourceQuotaScopeVolumeAttributesClass
		ps.Valid(!ok || valued || r.Operator == corev1.ScopeSelectorOpExists, at.Child("operator"), r.Operator,
			"must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, "+
				"ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity")
		switch r.Operator {
		case corev1.ScopeSelectorOpIn, corev1.ScopeSelectorOpNotIn:
			ps.Present(len(r.Values) > 0, at.Child("values"), "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector")
		case corev1.ScopeSelectorOpExists, corev1.ScopeSelectorOpDoesNotExist:
			ps.Valid(len(r.Values) == 0, at.Child("values"), r.Values, "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector")
		default:
			ps.Add(field.Invalid(at.Child("operator"), r.Operator, "not a valid selector operator"))
		}
	}
	checkScopePairs(ps, p.Child("scopeSelector", "matchExpressions"), scopes, spec.Scopes)
}
