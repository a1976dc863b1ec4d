package kube

import (
	"fmt"
	"slices"
	"strings"

	"github.com/planekit/planekit/apiserver"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func resourceQuotas() apiserver.Resource {
	type quota = corev1.ResourceQuota
	return apiserver.Resource{
		Version:    "v1",
		Kind:       "ResourceQuota",
		Plural:     "resourcequotas",
		ShortNames: []string{"quota"},
		Namespaced: true,
		New:        func() runtime.Object { return &quota{} },
		NewList:    func() runtime.Object { return &corev1.ResourceQuotaList{} },
		Strategy: strategy[*quota]{
			complete: func(q *quota) {
				roundUp(q.Spec.Hard)
				roundUp(q.Status.Hard)
				roundUp(q.Status.Used)
			},
			create:   func(q *quota) { q.Status = corev1.ResourceQuotaStatus{} },
			update:   func(q, old *quota) { old.Status.DeepCopyInto(&q.Status) },
			validate: validateQuota,
			validateUpdate: func(q, old *quota) field.ErrorList {
				ps := problems{list: validateQuota(&quota{Spec: q.Spec})}
				now, was := slices.Sorted(slices.Values(q.Spec.Scopes)), slices.Sorted(slices.Values(old.Spec.Scopes))
				ps.valid(slices.Equal(slices.Compact(now), slices.Compact(was)), field.NewPath("spec", "scopes"), q.Spec.Scopes, "field is immutable")
				return ps.list
			},
		}.erase(),
		Columns: []apiserver.Column{
			text("Request", "Request represents a minimum amount of cpu/memory that a container may consume.",
				func(q *quota) string { return quotaText(q, false) }),
			text("Limit", "Limits control the maximum amount of cpu/memory that a container may use independent of contention on the node.",
				func(q *quota) string { return quotaText(q, true) }),
			age[*quota](),
		},
		Subresources: []apiserver.Subresource{
			status(strategy[*quota]{
				update:         func(q, old *quota) { old.Spec.DeepCopyInto(&q.Spec) },
				validateUpdate: func(q, _ *quota) field.ErrorList { return validateQuota(&quota{Status: q.Status}) },
			}),
		},
	}
}

func quotaText(q *corev1.ResourceQuota, limits bool) string {
	var out []string
	for _, name := range sortedKeys(q.Status.Hard) {
		if strings.HasPrefix(string(name), "limits.") == limits {
			used, hard := q.Status.Used[name], q.Status.Hard[name]
			out = append(out, fmt.Sprintf("%s: %s/%s", name, &used, &hard))
		}
	}
	return strings.Join(out, ", ")
}

func validateQuota(q *corev1.ResourceQuota) field.ErrorList {
	var ps problems
	p := field.NewPath("spec")
	checkQuotaAmounts(&ps, p.Child("hard"), q.Spec.Hard)
	checkScopes(&ps, p, &q.Spec)
	if q.Spec.ScopeSelector != nil {
		checkScopeSelector(&ps, p, &q.Spec)
	}
	checkQuotaAmounts(&ps, field.NewPath("status", "hard"), q.Status.Hard)
	checkQuotaAmounts(&ps, field.NewPath("status", "used"), q.Status.Used)
	return ps.list
}

func checkQuotaAmounts(ps *problems, p *field.Path, list corev1.ResourceList) {
	for _, name := range sortedKeys(list) {
		at := p.Key(string(name))
		resourceName(ps, at, name)
		ps.valid(strings.Contains(string(name), "/") || quotaResource(name), at, name, "must be a standard resource for quota")
		checkAmount(ps, at, name, list[name])
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

// scopeResources are what a quota of a scope can count.
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
		slices.Contains(quotaNames, n) || slices.Contains(objectNames, n) ||
		isHugePages(n) || strings.HasPrefix(string(n), corev1.ResourceRequestsHugePagesPrefix)
}

func checkScopes(ps *problems, p *field.Path, spec *corev1.ResourceQuotaSpec) {
	at := p.Child("scopes")
	for _, scope := range spec.Scopes {
		_, ok := scopeResources[scope]
		ps.valid(ok, at, spec.Scopes, "unsupported scope")
		checkScoped(ps, at, spec.Scopes, scope, spec.Hard)
	}
	checkScopePairs(ps, at, spec.Scopes, spec.Scopes)
}

// checkScoped refuses what a quota of scope cannot count.
func checkScoped(ps *problems, p *field.Path, shown any, scope corev1.ResourceQuotaScope, hard corev1.ResourceList) {
	for _, name := range sortedKeys(hard) {
		can, ok := scopeResources[scope]
		ps.valid(!ok || !quotaResource(name) || slices.Contains(can, name), p, shown, "unsupported scope applied to resource")
	}
}

func checkScopePairs(ps *problems, p *field.Path, scopes, shown []corev1.ResourceQuotaScope) {
	for _, pair := range [][2]corev1.ResourceQuotaScope{
		{corev1.ResourceQuotaScopeBestEffort, corev1.ResourceQuotaScopeNotBestEffort},
		{corev1.ResourceQuotaScopeTerminating, corev1.ResourceQuotaScopeNotTerminating},
	} {
		ps.valid(!slices.Contains(scopes, pair[0]) || !slices.Contains(scopes, pair[1]), p, shown, "conflicting scopes")
	}
}

func checkScopeSelector(ps *problems, p *field.Path, spec *corev1.ResourceQuotaSpec) {
	at := p.Child("scopeSelector", "matchExpressions")
	var scopes []corev1.ResourceQuotaScope
	for _, r := range spec.ScopeSelector.MatchExpressions {
		scopes = append(scopes, r.ScopeName)
		_, ok := scopeResources[r.ScopeName]
		ps.valid(ok, at.Child("scopeName"), r.ScopeName, "unsupported scope")
		checkScoped(ps, at, spec.ScopeSelector, r.ScopeName, spec.Hard)
		valued := r.ScopeName == corev1.ResourceQuotaScopePriorityClass || r.ScopeName == corev1.ResourceQuotaScopeVolumeAttributesClass
		ps.valid(!ok || valued || r.Operator == corev1.ScopeSelectorOpExists, at.Child("operator"), r.Operator,
			"must be 'Exists' when scope is any of ResourceQuotaScopeTerminating, ResourceQuotaScopeNotTerminating, ResourceQuotaScopeBestEffort, "+
				"ResourceQuotaScopeNotBestEffort or ResourceQuotaScopeCrossNamespacePodAffinity")
		switch r.Operator {
		case corev1.ScopeSelectorOpIn, corev1.ScopeSelectorOpNotIn:
			ps.present(len(r.Values) > 0, at.Child("values"), "must be at least one value when `operator` is 'In' or 'NotIn' for scope selector")
		case corev1.ScopeSelectorOpExists, corev1.ScopeSelectorOpDoesNotExist:
			ps.valid(len(r.Values) == 0, at.Child("values"), r.Values, "must be no value when `operator` is 'Exist' or 'DoesNotExist' for scope selector")
		default:
			ps.add(field.Invalid(at.Child("operator"), r.Operator, "not a valid selector operator"))
		}
	}
	checkScopePairs(ps, p.Child("scopeSelector", "matchExpressions"), scopes, spec.Scopes)
}
