package kube

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// checkClusterIPs checks how clusterIP, clusterIPs, ipFamilies and
// ipFamilyPolicy go together.
func checkClusterIPs(ps *problems, p *field.Path, s, old *corev1.Service) {
	if !hasClusterIP(s) {
		return
	}
	spec := &s.Spec
	at, families := p.Child("clusterIPs"), p.Child("ipFamilies")
	switch {
	case spec.ClusterIP == "":
		ps.valid(len(spec.ClusterIPs) == 0, at, spec.ClusterIPs, "must be empty when `clusterIP` is not specified")
	case len(spec.ClusterIPs) == 0:
		ps.add(field.Required(at, ""))
	default:
		ps.valid(spec.ClusterIPs[0] == spec.ClusterIP, at, spec.ClusterIPs, "first value must match `clusterIP`")
	}
	seen := map[corev1.IPFamily]bool{}
	for i, family := range spec.IPFamilies {
		oneOf(ps, families.Index(i), family, corev1.IPv4Protocol, corev1.IPv6Protocol)
		ps.unique(!seen[family], families.Index(i), family)
		seen[family] = true
	}
	if policy := spec.IPFamilyPolicy; policy != nil {
		oneOf(ps, p.Child("ipFamilyPolicy"), *policy,
			corev1.IPFamilyPolicyPreferDualStack, corev1.IPFamilyPolicyRequireDualStack, corev1.IPFamilyPolicySingleStack)
	}
	var were []string
	if old != nil {
		were = old.Spec.ClusterIPs
	}
	if usable := checkAddresses(ps, at, spec.ClusterIPs, were); !usable || headless(s) {
		return
	}
	for i, ip := range spec.ClusterIPs {
		if i < len(spec.IPFamilies) {
			ps.valid(isIPv6(ip) == (spec.IPFamilies[i] != corev1.IPv4Protocol) || !known(spec.IPFamilies[i]),
				at.Index(i), ip, fmt.Sprintf("expected an %s value as indicated by `ipFamilies[%v]`", spec.IPFamilies[i], i))
		}
	}
}

func known(f corev1.IPFamily) bool { return f == corev1.IPv4Protocol || f == corev1.IPv6Protocol }

// checkAddresses reports whether each is an address by itself.
func checkAddresses(ps *problems, p *field.Path, ips, were []string) bool {
	var own problems
	for i, ip := range ips {
		if i == 0 && ip == corev1.ClusterIPNone {
			own.valid(len(ips) == 1, p, ips, "'None' must be the first and only value")
			continue
		}
		own.all(validation.IsValidIPForLegacyField(p.Index(i), ip, true, were))
	}
	ps.all(own.list)
	ps.valid(len(ips) <= 2, p, ips, "may only hold up to 2 values")
	if len(own.list) > 0 {
		return false
	}
	if len(ips) > 1 {
		some := slices.ContainsFunc(ips, isIPv6)
		all := !slices.ContainsFunc(ips, func(ip string) bool { return !isIPv6(ip) })
		ps.valid(some && !all, p, ips, "may specify no more than one IP for each IP family")
	}
	return true
}

// checkClusterIPChange lets a second address come and go; the first stays.
func checkClusterIPChange(ps *problems, p *field.Path, s, old *corev1.Service) {
	if !hasClusterIP(s) || !hasClusterIP(old) || headless(s) && headless(old) {
		return
	}
	const message = "may not change once set"
	at, now, was := p.Child("clusterIPs"), s.Spec.ClusterIPs, old.Spec.ClusterIPs
	if len(now) == len(was) {
		for i := range was {
			ps.valid(now[i] == was[i], at.Index(i), now, message)
		}
		return
	}
	ps.valid(len(now) > 0 || len(was) == 0, at.Index(0), now, "primary clusterIP can not be unset")
	ps.valid(len(now) == 0 || len(was) == 0 || now[0] == was[0], at.Index(0), now, message)
	if len(now) == 1 && len(was) > 1 {
		ps.valid(deref(s.Spec.IPFamilyPolicy) == corev1.IPFamilyPolicySingleStack,
			p.Child("ipFamilyPolicy"), s.Spec.IPFamilyPolicy, "must be set to 'SingleStack' when releasing the secondary clusterIP")
	}
}

func checkFamilyChange(ps *problems, p *field.Path, s, old *corev1.Service) {
	if !hasClusterIP(s) || !hasClusterIP(old) || headless(s) || headless(old) {
		return
	}
	const message = "may not change once set"
	at, now, was := p.Child("ipFamilies").Index(0), s.Spec.IPFamilies, old.Spec.IPFamilies
	if len(now) == len(was) {
		for i := range was {
			ps.valid(now[i] == was[i], at, now, message)
		}
		return
	}
	ps.valid(len(now) > len(was) || len(s.Spec.ClusterIPs) > 0, at, now, "primary ipFamily can not be unset")
	// Upstream shows the addresses here.
	ps.valid(len(now) == 0 || len(was) == 0 || now[0] == was[0], at, s.Spec.ClusterIPs, message)
	if len(now) == 1 && len(was) > 1 {
		ps.valid(deref(s.Spec.IPFamilyPolicy) == corev1.IPFamilyPolicySingleStack,
			p.Child("ipFamilyPolicy"), s.Spec.IPFamilyPolicy, "must be set to 'SingleStack' when releasing the secondary ipFamily")
	}
}
