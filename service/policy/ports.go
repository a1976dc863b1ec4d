package policy

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/planekit/planekit/service/ruleset"
)

// ports are the ports from first to last.
type ports struct{ first, last uint16 }

// protocols lists the protocols of ports.
var protocols = []ruleset.Protocol{ruleset.TCP, ruleset.UDP, ruleset.SCTP}

// portsOf returns the ports of a protocol that a rule names, in their order, of which none overlap or adjoin. Ports of egress
// rules that have a name are left out: they are in sets. Names of ingress rules are those of a pod.
func portsOf(d direction, rule networkingv1.NetworkPolicyIngressRule, protocol ruleset.Protocol, pod *corev1.Pod) []ports {
	var all []ports
	for _, port := range rule.Ports {
		switch {
		case protocolOf(port.Protocol) != protocol:
		case port.Port == nil:
			return []ports{{0, 65535}}
		case byName(d, port):
		case port.Port.Type == intstr.String:
			for _, n := range named(pod, port.Port.StrVal, protocol) {
				all = append(all, ports{n, n})
			}
		default:
			last := port.Port.IntVal
			if port.EndPort != nil {
				last = *port.EndPort
			}
			all = append(all, ports{uint16(port.Port.IntVal), uint16(last)})
		}
	}
	slices.SortFunc(all, func(a, b ports) int { return cmp.Or(cmp.Compare(a.first, b.first), cmp.Compare(a.last, b.last)) })
	merged := all[:0]
	for _, p := range all {
		if n := len(merged); n > 0 && int(p.first) <= int(merged[n-1].last)+1 {
			merged[n-1].last = max(merged[n-1].last, p.last)
			continue
		}
		merged = append(merged, p)
	}
	return merged
}

// mostRules is the largest number of ranges of ports that are rules of their own. More are a set: every packet passes the rules.
const mostRules = 4

// portMatches returns the conditions of which the port must fulfil one list, and adds the sets that they need to out.
func (x *index) portMatches(out ruleset.Fragment, p *networkingv1.NetworkPolicy, d direction, i int, pod *corev1.Pod) [][]ruleset.Statement {
	rule := d.rules[i]
	if len(rule.Ports) == 0 {
		return [][]ruleset.Statement{nil}
	}
	var all [][]ruleset.Statement
	for _, protocol := range protocols {
		of := ruleset.OfConnection{Protocol: protocol}
		found := portsOf(d, rule, protocol, pod)
		switch {
		case len(found) == 1 && found[0] == ports{0, 65535}:
			all = append(all, []ruleset.Statement{of})
		case len(found) > mostRules:
			set := x.portSet(out, p, d, protocol, found)
			all = append(all, []ruleset.Statement{of, ruleset.In{Family: x.family, Fields: []ruleset.Field{ruleset.ServerPort}, Set: set}})
		default:
			for _, r := range found {
				all = append(all, []ruleset.Statement{of, ruleset.ToServerPorts{First: r.first, Last: r.last}})
			}
		}
	}
	return all
}

// portSet adds a set of ports, whose name follows from what is in it.
func (x *index) portSet(out ruleset.Fragment, p *networkingv1.NetworkPolicy, d direction, protocol ruleset.Protocol, all []ports) string {
	hash := sha256.New()
	fmt.Fprint(hash, protocol, all)
	name := x.named(nameOf(d.name, keyOf(p), "/ports-"+hex.EncodeToString(hash.Sum(nil)[:8])))
	out.Sets[name] = ruleset.Set{Family: x.family, Fields: []ruleset.Field{ruleset.ServerPort}, Ranges: true}
	for _, r := range all {
		for _, key := range ruleset.PortBounds(r.first, r.last) {
			out.Elements[ruleset.Place{Set: name, Key: key}] = ""
		}
	}
	return name
}

// byName reports whether a port of an egress rule is looked up in the pods that it leads to.
func byName(d direction, port networkingv1.NetworkPolicyPort) bool {
	return d.kind == networkingv1.PolicyTypeEgress && port.Port != nil && port.Port.Type == intstr.String
}

// variant identifies the ports that the names in a policy's ingress rules have in a pod; empty if there are no names.
func variant(d direction, pod *corev1.Pod) string {
	hash := sha256.New()
	any := false
	for _, rule := range d.rules {
		for _, port := range rule.Ports {
			if d.kind == networkingv1.PolicyTypeIngress && port.Port != nil && port.Port.Type == intstr.String {
				any = true
				fmt.Fprint(hash, named(pod, port.Port.StrVal, protocolOf(port.Protocol)))
			}
		}
	}
	if !any {
		return ""
	}
	return "/" + hex.EncodeToString(hash.Sum(nil)[:8])
}
