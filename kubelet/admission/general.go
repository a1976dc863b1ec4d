package admission

import (
	"fmt"
	"slices"

	"github.com/planekit/planekit/kubelet/eviction"
	corev1 "k8s.io/api/core/v1"
)

// predicates are the checks beside that of resources, in the order of their reasons. Each returns
// whether the pod may be on the node.
var predicates = []struct {
	name, message string
	fits          func(Request) bool
}{
	{"NodeAffinity", "node(s) didn't match Pod's node affinity/selector", matchesNode},
	{"NodeName", "node(s) didn't match the requested node name", func(r Request) bool {
		return r.Pod.Spec.NodeName == "" || r.Pod.Spec.NodeName == r.Node.Name
	}},
	{"NodePorts", "node(s) didn't have free ports for the requested pod ports", hasPorts},
	{"TaintToleration", "node(s) had taints that the pod didn't tolerate", tolerates},
}

// ReasonAffinity is the reason of a pod whose node selector or required affinity does not match. The
// labels of the Node may have changed since it was read: a caller that has not just read it asks
// again.
const ReasonAffinity = "NodeAffinity"

// general compares the pod with the node: resources, labels, host ports and taints. The first reason
// counts, but for a critical pod a shortage comes last, because others can make room for it.
func general(r Request) Verdict {
	short := Fits(r.Pod, r.Others, r.Node.Status.Allocatable)
	if len(short) > 0 && !eviction.Critical(r.Pod) {
		return outOf(short)
	}
	for _, p := range predicates {
		if !p.fits(r) {
			return Verdict{Reason: p.name, Message: fmt.Sprintf("Predicate %s failed: %s", p.name, p.message)}
		}
	}
	if len(short) > 0 {
		return outOf(short)
	}
	return Verdict{}
}

func outOf(short []Shortage) Verdict {
	return Verdict{Reason: "OutOf" + string(short[0].Resource), Message: short[0].String(), Short: short}
}

// hostPort is a port of a node.
type hostPort struct {
	ip       string
	protocol corev1.Protocol
	port     int32
}

func (h hostPort) conflicts(other hostPort) bool {
	const all = "0.0.0.0"
	return h.port == other.port && h.protocol == other.protocol && (h.ip == other.ip || h.ip == all || other.ip == all)
}

// hasPorts reports whether no other pod has a host port that the pod needs.
func hasPorts(r Request) bool {
	wanted := hostPorts(r.Pod)
	if len(wanted) == 0 {
		return true
	}
	for _, other := range r.Others {
		for _, taken := range hostPorts(other) {
			if slices.ContainsFunc(wanted, taken.conflicts) {
				return false
			}
		}
	}
	return true
}

// hostPorts returns the host ports of the containers that run together.
func hostPorts(pod *corev1.Pod) []hostPort {
	var ports []hostPort
	add := func(c *corev1.Container) {
		for _, p := range c.Ports {
			if p.HostPort <= 0 {
				continue
			}
			h := hostPort{p.HostIP, p.Protocol, p.HostPort}
			if h.ip == "" {
				h.ip = "0.0.0.0"
			}
			if h.protocol == "" {
				h.protocol = corev1.ProtocolTCP
			}
			ports = append(ports, h)
		}
	}
	for i := range pod.Spec.Containers {
		add(&pod.Spec.Containers[i])
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; sidecar(c) {
			add(c)
		}
	}
	return ports
}

// configSource is the annotation that says where a kubelet has a pod from.
const configSource = "kubernetes.io/config.source"

// tolerates reports whether the pod tolerates the taints that end pods. A static pod is not asked: no
// controller could bring it back.
func tolerates(r Request) bool {
	if source := r.Pod.Annotations[configSource]; source != "" && source != "api" {
		return true
	}
	for i := range r.Node.Spec.Taints {
		taint := &r.Node.Spec.Taints[i]
		if taint.Effect == corev1.TaintEffectNoExecute &&
			!slices.ContainsFunc(r.Pod.Spec.Tolerations, func(t corev1.Toleration) bool { return tolerated(&t, taint) }) {
			return false
		}
	}
	return true
}

func tolerated(t *corev1.Toleration, taint *corev1.Taint) bool {
	switch {
	case t.Effect != "" && t.Effect != taint.Effect, t.Key != "" && t.Key != taint.Key:
		return false
	case t.Operator == corev1.TolerationOpExists:
		return true
	}
	return (t.Operator == "" || t.Operator == corev1.TolerationOpEqual) && t.Value == taint.Value
}
