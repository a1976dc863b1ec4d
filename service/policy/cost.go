package policy

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// What the policies of a namespace may cost each node that has a pod of theirs. A namespace pays for its own: what is over it
// allows nothing, and no other namespace waits.
const (
	// maxSteps bounds how many comparisons of peers with pods one look at a family takes: some tenths of a second.
	maxSteps = 4_000_000
	// maxRules bounds the rules of policies in the kernel, of which each takes up to ten sets. Rules that differ in
	// their peers alone, or in their ports alone, are one.
	maxRules = 1000
)

// account counts the spending of a namespace.
type account struct{ steps, rules int }

// spend charges the namespace of a policy, and reports whether it can pay. Being out of one of the two does not take the other. The first refusal of a policy is recorded.
func (x *index) spend(p *networkingv1.NetworkPolicy, steps, rules int) bool {
	a := x.spent[p.Namespace]
	if a == nil {
		a = &account{}
		x.spent[p.Namespace] = a
	}
	a.steps, a.rules = a.steps+steps, a.rules+rules
	over := ""
	switch {
	case steps > 0 && a.steps > maxSteps:
		over = fmt.Sprintf("the peers of the policies of the namespace take more than %d comparisons with pods", maxSteps)
	case rules > 0 && a.rules > maxRules:
		over = fmt.Sprintf("the policies of the namespace have more than %d rules of different peers and ports", maxRules)
	default:
		return true
	}
	if x.over[keyOf(p)] == "" {
		x.over[keyOf(p)] = over
	}
	return false
}

// portsIn returns how much there is to look at in a pod for a port with a name.
func portsIn(pod *corev1.Pod) int {
	n := 1
	for _, containers := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for _, c := range containers {
			n += 1 + len(c.Ports)
		}
	}
	return n
}

// affordable returns the rules of a policy, and their ports with names, that its namespace can pay for.
func (x *index) affordable(p *networkingv1.NetworkPolicy, d direction, rules []networkingv1.NetworkPolicyIngressRule) []networkingv1.NetworkPolicyIngressRule {
	var all []networkingv1.NetworkPolicyIngressRule
	for _, rule := range rules {
		if !x.spend(p, 0, 1) {
			break
		}
		var ports []networkingv1.NetworkPolicyPort
		for _, port := range rule.Ports {
			switch {
			case port.Port == nil || port.Port.Type != intstr.String:
			case d.kind == networkingv1.PolicyTypeEgress:
				if !x.spend(p, x.ports, 1) { // the name is looked up in all pods, and has a map
					continue
				}
			case !x.spend(p, x.localPorts[p.Namespace], 0):
				continue
			}
			ports = append(ports, port)
		}
		if len(rule.Ports) > 0 && len(ports) == 0 {
			continue // without any it would stand for all ports
		}
		rule.Ports = ports
		all = append(all, rule)
	}
	return all
}

// mergeRules returns rules that allow the same: those with equal ports are one with the peers of all, and those with equal peers
// one with the ports of all.
func mergeRules(rules []networkingv1.NetworkPolicyIngressRule) []networkingv1.NetworkPolicyIngressRule {
	if len(rules) < 2 {
		return rules
	}
	rules = grouped(rules, func(r networkingv1.NetworkPolicyIngressRule) networkingv1.NetworkPolicyIngressRule {
		return networkingv1.NetworkPolicyIngressRule{Ports: r.Ports}
	}, func(into *networkingv1.NetworkPolicyIngressRule, r networkingv1.NetworkPolicyIngressRule) {
		into.From = union(into.From, r.From)
	})
	return grouped(rules, func(r networkingv1.NetworkPolicyIngressRule) networkingv1.NetworkPolicyIngressRule {
		return networkingv1.NetworkPolicyIngressRule{From: r.From}
	}, func(into *networkingv1.NetworkPolicyIngressRule, r networkingv1.NetworkPolicyIngressRule) {
		into.Ports = union(into.Ports, r.Ports)
	})
}

// grouped adds each rule to the first one with an equal part. The lists of the result are its own.
func grouped(rules []networkingv1.NetworkPolicyIngressRule, part func(networkingv1.NetworkPolicyIngressRule) networkingv1.NetworkPolicyIngressRule,
	add func(into *networkingv1.NetworkPolicyIngressRule, r networkingv1.NetworkPolicyIngressRule)) []networkingv1.NetworkPolicyIngressRule {
	at := map[string]int{}
	var all []networkingv1.NetworkPolicyIngressRule
	for _, r := range rules {
		of := part(r)
		key, err := of.Marshal()
		if i, ok := at[string(key)]; ok && err == nil {
			add(&all[i], r)
			continue
		}
		at[string(key)] = len(all)
		all = append(all, networkingv1.NetworkPolicyIngressRule{From: slices.Clone(r.From), Ports: slices.Clone(r.Ports)})
	}
	return all
}

// union appends b to a. An empty list stands for everything.
func union[T any](a, b []T) []T {
	if len(a) == 0 || len(b) == 0 {
		return nil
	}
	return append(a, b...)
}
