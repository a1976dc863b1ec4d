package kube

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// families decides of which IP families the service has addresses: those it
// asks for, by name or by address, else the cluster's first. Single stack is what
// nobody asked otherwise; a headless service without a selector, whose endpoints
// somebody else writes, is for both.
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
	var ps problems
	checkClusterIPs(&ps, field.NewPath("spec"), s, old)
	if len(ps.list) > 0 {
		return invalidService(s, ps.list...)
	}
	c.checkPolicy(&ps, s, old)
	c.inferFamilies(&ps, s)
	if len(ps.list) > 0 {
		return invalidService(s, ps.list...)
	}
	if !orphan {
		c.checkConfigured(&ps, s)
		if len(ps.list) > 0 {
			return invalidService(s, ps.list...)
		}
	}
	if len(spec.IPFamilies) == 0 {
		spec.IPFamilies = []corev1.IPFamily{familyOf(c.ServiceCIDRs[0].Addr().String())}
	}
	if *spec.IPFamilyPolicy != corev1.IPFamilyPolicySingleStack && len(spec.IPFamilies) == 1 && (orphan || len(c.ServiceCIDRs) == 2) {
		spec.IPFamilies = append(spec.IPFamilies, otherFamily(spec.IPFamilies[0]))
	}
	return nil
}

// keepsPreferred reports whether a service that prefers both families is left
// as it is: the cluster's having become dual stack alone does not change it.
func keepsPreferred(s, old *corev1.Service) bool {
	spec, was := &s.Spec, &old.Spec
	return hasClusterIP(old) && deref(spec.IPFamilyPolicy) == corev1.IPFamilyPolicyPreferDualStack &&
		deref(was.IPFamilyPolicy) == corev1.IPFamilyPolicyPreferDualStack &&
		slices.Equal(spec.ClusterIPs, was.ClusterIPs) && slices.Equal(spec.IPFamilies, was.IPFamilies)
}

func otherFamily(f corev1.IPFamily) corev1.IPFamily {
	if f == corev1.IPv4Protocol {
		return corev1.IPv6Protocol
	}
	return corev1.IPv4Protocol
}

// checkPolicy lets go of the second family where the policy says so and nothing
// says otherwise.
func (c Config) checkPolicy(ps *problems, s, old *corev1.Service) {
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
		ps.valid(len(spec.ClusterIPs) < 2, at, spec.IPFamilyPolicy,
			"must be 'RequireDualStack' or 'PreferDualStack' when multiple cluster IPs are specified")
		ps.valid(len(spec.IPFamilies) < 2, at, spec.IPFamilyPolicy,
			"must be 'RequireDualStack' or 'PreferDualStack' when multiple IP families are specified")
		return
	}
	ps.valid(len(spec.ClusterIPs) == 0 || len(spec.ClusterIPs) >= len(was.ClusterIPs),
		at, spec.IPFamilyPolicy, "must be 'SingleStack' to release the secondary cluster IP")
	ps.valid(len(spec.IPFamilies) == 0 || len(spec.IPFamilies) >= len(was.IPFamilies),
		at, spec.IPFamilyPolicy, "must be 'SingleStack' to release the secondary IP family")
}

// inferFamilies adds the families of addresses that are given.
func (c Config) inferFamilies(ps *problems, s *corev1.Service) {
	for i, ip := range s.Spec.ClusterIPs {
		if ip == corev1.ClusterIPNone || i < len(s.Spec.IPFamilies) {
			continue
		}
		family := familyOf(ip)
		if !c.cidr(family).IsValid() {
			ps.add(field.Invalid(field.NewPath("spec", "clusterIPs").Index(i), s.Spec.ClusterIPs,
				fmt.Sprintf("%s is not configured on this cluster", family)))
			continue
		}
		s.Spec.IPFamilies = append(s.Spec.IPFamilies, family)
	}
}

func (c Config) checkConfigured(ps *problems, s *corev1.Service) {
	spec, p := &s.Spec, field.NewPath("spec")
	ps.valid(*spec.IPFamilyPolicy != corev1.IPFamilyPolicyRequireDualStack || len(c.ServiceCIDRs) == 2,
		p.Child("ipFamilyPolicy"), spec.IPFamilyPolicy, "this cluster is not configured for dual-stack services")
	for i, family := range spec.IPFamilies {
		ps.valid(c.cidr(family).IsValid(), p.Child("ipFamilies").Index(i), family, "not configured on this cluster")
	}
}
