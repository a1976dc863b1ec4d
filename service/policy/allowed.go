package policy

import (
	"net/netip"
	"slices"

	"github.com/planekit/planekit/internal/selector"
	"github.com/planekit/planekit/service/ruleset"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// A Peer is one end of a connection.
type Peer struct {
	// Addr is the address that packets have.
	Addr netip.Addr
	// Pod is nil outside of the cluster, and for pods in the network of their node.
	Pod *corev1.Pod
	// Namespace holds the namespace of the pod.
	Namespace *corev1.Namespace
}

// Allowed reports whether policies let a connection from one peer to a port of another. It is the
// definition of what the rules do, written to be read: rules are made by [World.Fragments].
func Allowed(policies []*networkingv1.NetworkPolicy, from, to Peer, protocol ruleset.Protocol, port uint16) bool {
	if from.Pod != nil && to.Pod != nil && from.Addr == to.Addr {
		return true // a pod always reaches itself
	}
	egress := func(p *networkingv1.NetworkPolicy) bool {
		return slices.ContainsFunc(p.Spec.Egress, func(r networkingv1.NetworkPolicyEgressRule) bool {
			return matchesPeers(p.Namespace, r.To, to) && matchesPorts(r.Ports, to.Pod, protocol, port)
		})
	}
	ingress := func(p *networkingv1.NetworkPolicy) bool {
		return slices.ContainsFunc(p.Spec.Ingress, func(r networkingv1.NetworkPolicyIngressRule) bool {
			return matchesPeers(p.Namespace, r.From, from) && matchesPorts(r.Ports, to.Pod, protocol, port)
		})
	}
	return oneAllows(policies, from, networkingv1.PolicyTypeEgress, egress) && oneAllows(policies, to, networkingv1.PolicyTypeIngress, ingress)
}

// oneAllows reports whether one of the policies that select a pod allows something, or none selects it.
func oneAllows(policies []*networkingv1.NetworkPolicy, pod Peer, kind networkingv1.PolicyType, allows func(*networkingv1.NetworkPolicy) bool) bool {
	selected := false
	for _, p := range policies {
		if pod.Pod == nil || !selects(p, pod.Pod) || !slices.Contains(types(p), kind) {
			continue
		}
		if selected = true; allows(p) {
			return true
		}
	}
	return !selected
}

func selects(p *networkingv1.NetworkPolicy, pod *corev1.Pod) bool {
	return p.Namespace == pod.Namespace && selector.Matches(&p.Spec.PodSelector, pod.Labels)
}

// types returns the directions of a policy, with the API server's default.
func types(p *networkingv1.NetworkPolicy) []networkingv1.PolicyType {
	if len(p.Spec.PolicyTypes) > 0 {
		return p.Spec.PolicyTypes
	}
	all := []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
	if len(p.Spec.Egress) > 0 {
		all = append(all, networkingv1.PolicyTypeEgress)
	}
	return all
}

func matchesPeers(namespace string, peers []networkingv1.NetworkPolicyPeer, other Peer) bool {
	return len(peers) == 0 || slices.ContainsFunc(peers, func(p networkingv1.NetworkPolicyPeer) bool {
		if p.IPBlock != nil {
			return inBlock(p.IPBlock, other.Addr)
		}
		return other.Pod != nil && matchesPod(namespace, p, other.Pod, other.Namespace)
	})
}

// matchesPod reports whether a peer of a policy in a namespace is a pod.
func matchesPod(namespace string, p networkingv1.NetworkPolicyPeer, pod *corev1.Pod, in *corev1.Namespace) bool {
	if p.NamespaceSelector == nil && pod.Namespace != namespace {
		return false
	}
	if p.NamespaceSelector != nil && (in == nil || !selector.Matches(p.NamespaceSelector, in.Labels)) {
		return false
	}
	return p.PodSelector == nil || selector.Matches(p.PodSelector, pod.Labels)
}

func inBlock(b *networkingv1.IPBlock, a netip.Addr) bool {
	cidr, err := netip.ParsePrefix(b.CIDR)
	if err != nil || !cidr.Contains(a) {
		return false
	}
	return !slices.ContainsFunc(b.Except, func(text string) bool {
		except, err := netip.ParsePrefix(text)
		return err == nil && except.Contains(a)
	})
}

func matchesPorts(ports []networkingv1.NetworkPolicyPort, to *corev1.Pod, protocol ruleset.Protocol, port uint16) bool {
	return len(ports) == 0 || slices.ContainsFunc(ports, func(p networkingv1.NetworkPolicyPort) bool {
		switch {
		case protocolOf(p.Protocol) != protocol:
			return false
		case p.Port == nil:
			return true
		case p.Port.Type == intstr.String:
			return to != nil && slices.Contains(named(to, p.Port.StrVal, protocol), port)
		}
		first := p.Port.IntVal
		last := first
		if p.EndPort != nil {
			last = *p.EndPort
		}
		return int32(port) >= first && int32(port) <= last
	})
}

// named returns the ports of a pod with a name.
func named(pod *corev1.Pod, name string, protocol ruleset.Protocol) []uint16 {
	var all []uint16
	add := func(containers []corev1.Container) {
		for _, c := range containers {
			for _, p := range c.Ports {
				if p.Name == name && protocolOf(&p.Protocol) == protocol {
					all = append(all, uint16(p.ContainerPort))
				}
			}
		}
	}
	for _, c := range pod.Spec.InitContainers {
		if c.RestartPolicy != nil && *c.RestartPolicy == corev1.ContainerRestartPolicyAlways {
			add([]corev1.Container{c}) // which runs beside the others
		}
	}
	add(pod.Spec.Containers)
	slices.Sort(all)
	return slices.Compact(all)
}

func protocolOf(p *corev1.Protocol) ruleset.Protocol {
	if p != nil {
		switch *p {
		case corev1.ProtocolUDP:
			return ruleset.UDP
		case corev1.ProtocolSCTP:
			return ruleset.SCTP
		}
	}
	return ruleset.TCP
}
