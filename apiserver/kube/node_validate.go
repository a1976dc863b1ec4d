package kube

import (
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metavalidation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func validateNode(node *corev1.Node) field.ErrorList {
	var ps problems
	// Upstream looks for taints at this path, although they are in the spec.
	checkTaints(&ps, field.NewPath("metadata", "taints"), node.Spec.Taints)
	checkAmounts(&ps, field.NewPath("status", "capacity"), node.Status.Capacity)
	checkAmounts(&ps, field.NewPath("status", "allocatable"), node.Status.Allocatable)
	checkPodCIDRs(&ps, field.NewPath("spec", "podCIDRs"), node.Spec.PodCIDRs)
	return ps.list
}

func validateNodeUpdate(node, old *corev1.Node) field.ErrorList {
	ps := problems{list: validateNode(node)}
	seen := map[corev1.NodeAddress]bool{}
	for i, a := range node.Status.Addresses {
		ps.unique(!seen[a], field.NewPath("status", "addresses").Index(i), a)
		seen[a] = true
	}
	spec := field.NewPath("spec")
	if len(old.Spec.PodCIDRs) > 0 && !slices.Equal(node.Spec.PodCIDRs, old.Spec.PodCIDRs) {
		ps.add(field.Forbidden(spec.Child("podCIDRs"), `node updates may not change podCIDR except from "" to valid`))
	}
	if old.Spec.ProviderID != "" && node.Spec.ProviderID != old.Spec.ProviderID {
		ps.add(field.Forbidden(spec.Child("providerID"), `node updates may not change providerID except from "" to valid`))
	}
	if node.Spec.DoNotUseExternalID != old.Spec.DoNotUseExternalID {
		ps.add(field.Forbidden(spec.Child("externalID"), "may not be updated"))
	}
	return ps.list
}

func checkTaints(ps *problems, p *field.Path, taints []corev1.Taint) {
	type identity struct {
		key    string
		effect corev1.TaintEffect
	}
	seen := map[identity]bool{}
	for i, t := range taints {
		at := p.Index(i)
		ps.all(metavalidation.ValidateLabelName(t.Key, at.Child("key")))
		if msgs := validation.IsValidLabelValue(t.Value); len(msgs) > 0 {
			ps.add(field.Invalid(at.Child("value"), t.Value, strings.Join(msgs, ";")))
		}
		someOf(ps, at.Child("effect"), t.Effect, taintEffects...)
		id := identity{t.Key, t.Effect}
		if seen[id] {
			duplicate := field.Duplicate(at, t)
			duplicate.Detail = "taints must be unique by key and effect pair"
			ps.add(duplicate)
		}
		seen[id] = true
	}
}

var taintEffects = []corev1.TaintEffect{
	corev1.TaintEffectNoSchedule,
	corev1.TaintEffectPreferNoSchedule,
	corev1.TaintEffectNoExecute,
}

// checkAmounts checks what a node has. Upstream spells the path with dots.
func checkAmounts(ps *problems, p *field.Path, list corev1.ResourceList) {
	for _, name := range sortedKeys(list) {
		checkAmount(ps, p.Child(string(name)), name, list[name])
	}
}

// checkPodCIDRs allows one range for each IP family.
func checkPodCIDRs(ps *problems, p *field.Path, cidrs []string) {
	families := map[bool]int{}
	for i, cidr := range cidrs {
		ps.all(validation.IsValidCIDRForLegacyField(p.Index(i), cidr, true, nil))
		prefix, err := netip.ParsePrefix(cidr)
		families[err == nil && prefix.Addr().Is4()]++
	}
	if families[true] > 1 || families[false] > 1 {
		ps.add(field.Invalid(p, cidrs, "may specify no more than one CIDR for each IP family"))
	}
}
