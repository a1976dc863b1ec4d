package service

import (
	"fmt"
	"slices"

	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// families sets the IP families of the service: those that it requests by name or by address, or
// else the first of the cluster. The default policy is single stack, except for a headless service
// without a selector, whose endpoints another client writes: it is for both families.
func (c Config) families(s, old *corev1.Service) error {
	spec := &s.Spec
	if keepsPreferred(s, old) {
		return nil
	}
	orphan := spec.ClusterIP == corev1.ClusterIPNone && len(spec.Selector) == 0
	if spec.IPFamilyPolicy == nil {
		policy := corev1.IPFamilyPolicySingleStack
		switch {
		case old.Spec.IPFamilyPolicy != nil:
			policy = *old.Spec.IPFamilyPolicy
		case orphan:
			policy = corev1.IPFamilyPolicyRequireDualStack
		}
		spec.IPFamilyPolicy = &policy
	}
	var ps check.Problems
	checkClusterIPs(&ps, field.NewPath("spec"), s, old)
	if len(ps.List) > 0 {
		return invalidService(s, ps.List...)
	}
	c.checkPolicy(&ps, s, old)
	c.inferFamilies(&ps, s)
	if len(ps.List) > 0 {
		return invalidService(s, ps.List...)
	}
	if !orphan {
		c.checkConfigured(&ps, s)
		if len(ps.List) > 0 {
			return invalidService(s, ps.List...)
		}
	}
	if len(spec.IPFamilies) == 0 {
		spec.IPFamilies = []corev1.IPFamily{check.FamilyOf(c.CIDRs[0].Addr().String())}
	}
	if *spec.IPFamilyPolicy != corev1.IPFamilyPolicySingleStack && len(spec.IPFamilies) == 1 && (orphan || len(c.CIDRs) == 2) {
		spec.IPFamilies = append(spec.IPFamilies, otherFamily(spec.IPFamilies[0]))
	}
	return nil
}

// keepsPreferred reports whether a service that prefers both families is left
// as it is: the cluster's having become dual stack alone does not change it.
func keepsPreferred(s, old *corev1.Service) bool {
	spec, was := &s.Spec, &old.Spec
	return hasClusterIP(old) && optional.Deref(spec.IPFamilyPolicy) == corev1.IPFamilyPolicyPreferDualStack &&
		optional.Deref(was.IPFamilyPolicy) == corev1.IPFamilyPolicyPreferDualStack &&
		slices.Equal(spec.ClusterIPs, was.ClusterIPs) && slices.Equal(spec.IPFamilies, was.IPFamilies)
}

func otherFamily(f corev1.IPFamily) corev1.IPFamily {
	if f == corev1.IPv4Protocol {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

// checkPolicy checks the addresses and the families against the policy. A service that becomes single
// stack loses its second address and family, unless the client changed these lists too.
func (c Config) checkPolicy(ps *check.Problems, s, old *corev1.Service) {
	spec, was := &s.Spec, &old.Spec
	at := field.NewPath("spec", "ipFamilyPolicy")
	single := *spec.IPFamilyPolicy == corev1.IPFamilyPolicySingleStack
	if single {
		if slices.Equal(spec.ClusterIPs, was.ClusterIPs) && len(spec.ClusterIPs) > 1 {
			spec.ClusterIPs = spec.ClusterIPs[:1]
		}
		if slices.Equal(spec.IPFamilies, was.IPFamilies) && len(spec.IPFamilies) > 1 {
			spec.IPFamilies = spec.IPFamilies[:1]
		}
		ps.Valid(len(spec.ClusterIPs) < 2, at, spec.IPFamilyPolicy,
			"must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs are specified")
		ps.Valid(len(spec.IPFamilies) < 2, at, spec.IPFamilyPolicy,
			"must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified")
		return
	}
	ps.Valid(len(spec.ClusterIPs) == 0 || len(spec.ClusterIPs) >= len(was.ClusterIPs),
		at, spec.IPFamilyPolicy, "must be 'SingleStack' to release the secondary cluster IP")
	ps.Valid(len(spec.IPFamilies) == 0 || len(spec.IPFamilies) >= len(was.IPFamilies),
		at, spec.IPFamilyPolicy, "must be 'SingleStack' to release the secondary IP family")
}

// inferFamilies adds the families of the addresses that the client set.
func (c Config) inferFamilies(ps *check.Problems, s *corev1.Service) {
	for i, ip := range s.Spec.ClusterIPs {
		if ip == corev1.ClusterIPNone || i < len(s.Spec.IPFamilies) {
			continue
		}
		family := check.FamilyOf(ip)
		if !c.cidr(family).IsValid() {
			ps.Add(field.Invalid(field.NewPath("spec", "clusterIPs").Index(i), s.Spec.ClusterIPs,
				fmt.Sprintf("%s is not configured on this cluster", family)))
			continue
		}
		s.Spec.IPFamilies = append(s.Spec.IPFamilies, family)
	}
}

func (c Config) checkConfigured(ps *check.Problems, s *corev1.Service) {
	spec, p := &s.Spec, field.NewPath("spec")
	ps.Valid(*spec.IPFamilyPolicy != corev1.IPFamilyPolicyRequireDualStack || len(c.CIDRs) == 2,
		p.Child("ipFamilyPolicy"), spec.IPFamilyPolicy, "this cluster is not configured for dual-stack services")
	for i, family := range spec.IPFamilies {
		ps.Valid(c.cidr(family).IsValid(), p.Child("ipFamilies").Index(i), family, "not configured on this cluster")
	}
}

// checkClusterIPs checks how clusterIP, clusterIPs, ipFamilies and
// ipFamilyPolicy go together.
func checkClusterIPs(ps *check.Problems, p *field.Path, s, old *corev1.Service) {
	if !hasClusterIP(s) {
		return
	}
	spec := &s.Spec
	at, families := p.Child("clusterIPs"), p.Child("ipFamilies")
	switch {
	case spec.ClusterIP == "":
		ps.Valid(len(spec.ClusterIPs) == 0, at, spec.ClusterIPs, "must be empty when `clusterIP` is not specified")
	case len(spec.ClusterIPs) == 0:
		ps.Add(field.Required(at, ""))
	default:
		ps.Valid(spec.ClusterIPs[0] == spec.ClusterIP, at, spec.ClusterIPs, "first value must match `clusterIP`")
	}
	seen := map[corev1.IPFamily]bool{}
	for i, family := range spec.IPFamilies {
		check.OneOf(ps, families.Index(i), family, corev1.IPv4Protocol, corev1.IPv6Protocol)
		ps.Unique(!seen[family], families.Index(i), family)
		seen[family] = true
	}
	if policy := spec.IPFamilyPolicy; policy != nil {
		check.OneOf(ps, p.Child("ipFamilyPolicy"), *policy,
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
			ps.Valid(check.IsIPv6(ip) == (spec.IPFamilies[i] != corev1.IPv4Protocol) || !known(spec.IPFamilies[i]),
				at.Index(i), ip, fmt.Sprintf("expected an %s value as indicated by `ipFamilies[%v]`", spec.IPFamilies[i], i))
		}
	}
}

func known(f corev1.IPFamily) bool { return f == corev1.IPv4Protocol || f == corev1.IPv6Protocol }

// checkAddresses reports whether each is an address by itself.
func checkAddresses(ps *check.Problems, p *field.Path, ips, were []string) bool {
	var own check.Problems
	for i, ip := range ips {
		if i == 0 && ip == corev1.ClusterIPNone {
			own.Valid(len(ips) == 1, p, ips, "'None' must be the first and only value")
			continue
		}
		own.All(validation.IsValidIPForLegacyField(p.Index(i), ip, true, were))
	}
	ps.All(own.List)
	ps.Valid(len(ips) <= 2, p, ips, "may only hold up to 2 values")
	if len(own.List) > 0 {
		return false
	}
	if len(ips) > 1 {
		some := slices.ContainsFunc(ips, check.IsIPv6)
		all := !slices.ContainsFunc(ips, func(ip string) bool { return !check.IsIPv6(ip) })
		ps.Valid(some && !all, p, ips, "may specify no more than one IP for each IP family")
	}
	return true
}

// checkClusterIPChange allows adding and removing the second address; the first must stay.
func checkClusterIPChange(ps *check.Problems, p *field.Path, s, old *corev1.Service) {
	if !hasClusterIP(s) || !hasClusterIP(old) || headless(s) && headless(old) {
		return
	}
	const message = "may not change once set"
	at, now, was := p.Child("clusterIPs"), s.Spec.ClusterIPs, old.Spec.ClusterIPs
	if len(now) == len(was) {
		for i := range was {
			ps.Valid(now[i] == was[i], at.Index(i), now, message)
		}
		return
	}
	ps.Valid(len(now) > 0 || len(was) == 0, at.Index(0), now, "primary clusterIP can not be unset")
	ps.Valid(len(now) == 0 || len(was) == 0 || now[0] == was[0], at.Index(0), now, message)
	if len(now) == 1 && len(was) > 1 {
		ps.Valid(optional.Deref(s.Spec.IPFamilyPolicy) == corev1.IPFamilyPolicySingleStack,
			p.Child("ipFamilyPolicy"), s.Spec.IPFamilyPolicy, "must be set to 'SingleStack' when releasing the secondary clusterIP")
	}
}

func checkFamilyChange(ps *check.Problems, p *field.Path, s, old *corev1.Service) {
	if !hasClusterIP(s) || !hasClusterIP(old) || headless(s) || headless(old) {
		return
	}
	const message = "may not change once set"
	at, now, was := p.Child("ipFamilies").Index(0), s.Spec.IPFamilies, old.Spec.IPFamilies
	if len(now) == len(was) {
		for i := range was {
			ps.Valid(now[i] == was[i], at, now, message)
		}
		return
	}
	ps.Valid(len(now) > len(was) || len(s.Spec.ClusterIPs) > 0, at, now, "primary ipFamily can not be unset")
	// Upstream shows the addresses here.
	ps.Valid(len(now) == 0 || len(was) == 0 || now[0] == was[0], at, s.Spec.ClusterIPs, message)
	if len(now) == 1 && len(was) > 1 {
		ps.Valid(optional.Deref(s.Spec.IPFamilyPolicy) == corev1.IPFamilyPolicySingleStack,
			p.Child("ipFamilyPolicy"), s.Spec.IPFamilyPolicy, "must be set to 'SingleStack' when releasing the secondary ipFamily")
	}
}
