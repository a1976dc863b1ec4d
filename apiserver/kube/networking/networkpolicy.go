package networking

import (
	"net/netip"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/column"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	"github.com/planekit/planekit/kinds"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// NetworkPolicies returns the resource of the kind NetworkPolicy.
func NetworkPolicies() apiserver.Resource {
	type policy = networkingv1.NetworkPolicy
	return apiserver.For(kinds.NetworkPolicies, apiserver.Resource{
		Strategy: define.Strategy[*policy]{
			Counted:        func(n *policy) any { return &n.Spec },
			Default:        completeNetworkPolicy,
			Validate:       func(n *policy) field.ErrorList { return validateNetworkPolicy(n, nil) },
			ValidateUpdate: func(n, old *policy) field.ErrorList { return validateNetworkPolicy(n, policyCIDRs(old)) },
		}.Erase(),
		Columns: []apiserver.Column{
			column.Text("Pod-Selector", networkingv1.NetworkPolicySpec{}.SwaggerDoc()["podSelector"],
				func(n *policy) string { return metav1.FormatLabelSelector(&n.Spec.PodSelector) }),
			column.Age[*policy](),
		},
	})
}

func completeNetworkPolicy(n *networkingv1.NetworkPolicy) {
	spec := &n.Spec
	for i := range spec.Ingress {
		completePolicyPorts(spec.Ingress[i].Ports)
	}
	for i := range spec.Egress {
		completePolicyPorts(spec.Egress[i].Ports)
	}
	if len(spec.PolicyTypes) == 0 {
		spec.PolicyTypes = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
		if len(spec.Egress) > 0 {
			spec.PolicyTypes = append(spec.PolicyTypes, networkingv1.PolicyTypeEgress)
		}
	}
}

func completePolicyPorts(ports []networkingv1.NetworkPolicyPort) {
	for i := range ports {
		optional.SetIfNil(&ports[i].Protocol, corev1.ProtocolTCP)
	}
}

// policyCIDRs are the address ranges of a policy.
func policyCIDRs(n *networkingv1.NetworkPolicy) []string {
	var out []string
	add := func(peers []networkingv1.NetworkPolicyPeer) {
		for _, peer := range peers {
			if b := peer.IPBlock; b != nil {
				out = append(append(out, b.CIDR), b.Except...)
			}
		}
	}
	for _, rule := range n.Spec.Ingress {
		add(rule.From)
	}
	for _, rule := range n.Spec.Egress {
		add(rule.To)
	}
	return out
}

// validateNetworkPolicy lets ranges that were there before stay as they are.
func validateNetworkPolicy(n *networkingv1.NetworkPolicy, were []string) field.ErrorList {
	var ps check.Problems
	p, spec := field.NewPath("spec"), &n.Spec
	ps.Selector(p.Child("podSelector"), &spec.PodSelector)
	for i, rule := range spec.Ingress {
		at := p.Child("ingress").Index(i)
		checkPolicyPorts(&ps, at.Child("ports"), rule.Ports)
		checkPolicyPeers(&ps, at.Child("from"), rule.From, were)
	}
	for i, rule := range spec.Egress {
		at := p.Child("egress").Index(i)
		checkPolicyPorts(&ps, at.Child("ports"), rule.Ports)
		checkPolicyPeers(&ps, at.Child("to"), rule.To, were)
	}
	if len(spec.PolicyTypes) > 2 {
		ps.Add(field.Invalid(p.Child("policyTypes"), &spec.PolicyTypes, "may not specify more than two policyTypes"))
		return ps.List
	}
	for i, t := range spec.PolicyTypes {
		check.OneOf(&ps, p.Child("policyTypes").Index(i), t, networkingv1.PolicyTypeIngress, networkingv1.PolicyTypeEgress)
	}
	return ps.List
}

func checkPolicyPorts(ps *check.Problems, p *field.Path, ports []networkingv1.NetworkPolicyPort) {
	for i, port := range ports {
		at := p.Index(i)
		if port.Protocol != nil {
			check.OneOf(ps, at.Child("protocol"), *port.Protocol, corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP)
		}
		end := at.Child("endPort")
		switch {
		case port.Port == nil:
			ps.Valid(port.EndPort == nil, end, optional.Deref(port.EndPort), "may not be specified when `port` is not specified")
		case port.Port.Type == intstr.String:
			ps.Valid(port.EndPort == nil, end, optional.Deref(port.EndPort), "may not be specified when `port` is non-numeric")
			ps.Each(at.Child("port"), port.Port.StrVal, validation.IsValidPortName(port.Port.StrVal))
		default:
			n := port.Port.IntVal
			ps.Each(at.Child("port"), n, validation.IsValidPortNum(int(n)))
			if port.EndPort != nil {
				ps.Valid(*port.EndPort >= n, end, n, "must be greater than or equal to `port`")
				ps.Each(end, *port.EndPort, validation.IsValidPortNum(int(*port.EndPort)))
			}
		}
	}
}

func checkPolicyPeers(ps *check.Problems, p *field.Path, peers []networkingv1.NetworkPolicyPeer, were []string) {
	for i, peer := range peers {
		at := p.Index(i)
		if peer.PodSelector != nil {
			ps.Selector(at.Child("podSelector"), peer.PodSelector)
		}
		if peer.NamespaceSelector != nil {
			ps.Selector(at.Child("namespaceSelector"), peer.NamespaceSelector)
		}
		selects := peer.PodSelector != nil || peer.NamespaceSelector != nil
		if peer.IPBlock != nil {
			checkIPBlock(ps, at.Child("ipBlock"), peer.IPBlock, were)
			ps.Allowed(!selects, at, "may not specify both ipBlock and another peer")
		} else {
			ps.Present(selects, at, "must specify a peer")
		}
	}
}

func checkIPBlock(ps *check.Problems, p *field.Path, b *networkingv1.IPBlock, were []string) {
	if !ps.Required(p.Child("cidr"), b.CIDR) {
		return
	}
	ps.All(validation.IsValidCIDRForLegacyField(p.Child("cidr"), b.CIDR, true, were))
	whole, err := netip.ParsePrefix(b.CIDR)
	if err != nil {
		return
	}
	for i, except := range b.Except {
		at := p.Child("except").Index(i)
		ps.All(validation.IsValidCIDRForLegacyField(at, except, true, were))
		if part, err := netip.ParsePrefix(except); err == nil {
			ps.Valid(whole.Masked().Contains(part.Masked().Addr()) && whole.Bits() < part.Bits(), at, except, "must be a strict subset of `cidr`")
		}
	}
}
