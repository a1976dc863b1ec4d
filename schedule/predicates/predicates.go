// Package predicates contains predicates with the semantics and messages of the kube-scheduler's
// filters.
//
//	schedule.Config{Predicates: predicates.Default()}
//
// All are stateless and safe for concurrent use.
package predicates

import (
	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/internal/nodematch"
	corev1 "k8s.io/api/core/v1"
)

// Default returns all predicates of this package, cheap and selective ones first.
func Default() []schedule.Predicate { return DefaultSpreading(schedule.SpreadDefaults{}) }

// DefaultSpreading is Default with topology spread constraints for pods that have none.
func DefaultSpreading(defaults schedule.SpreadDefaults) []schedule.Predicate {
	return []schedule.Predicate{
		Unsupported(), Unschedulable(), NodeName(), Taints(), NodeSelector(), HostPorts(), Fit(),
		TopologySpread(defaults), PodAffinity(),
	}
}

// compiled is a predicate that first processes the pod.
type compiled struct {
	name    string
	wakes   func(schedule.Event) bool
	compile func(*schedule.PodInfo) func(*schedule.NodeInfo) schedule.Verdict
}

// Wakes implements [schedule.Waker].
func (c compiled) Wakes(_ *schedule.PodInfo, e schedule.Event) bool { return c.wakes(e) }

// The events that a predicate depends on.
var (
	never = func(schedule.Event) bool { return false }
	// nodes are changes of nodes.
	nodes = func(e schedule.Event) bool {
		_, _, ok := schedule.Changed[*corev1.Node](e)
		return ok
	}
	// departures are pods that leave a node or that may now need less.
	departures = func(e schedule.Event) bool {
		old, _, _ := schedule.Changed[*schedule.PodInfo](e)
		return old != nil
	}
	nodesAndDepartures = func(e schedule.Event) bool { return nodes(e) || departures(e) }
)

func (c compiled) Name() string { return c.name }

// ForClass implements [schedule.ClassPredicate].
func (compiled) ForClass(*schedule.PodInfo) bool { return true }

func (c compiled) Compile(p *schedule.PodInfo) func(*schedule.NodeInfo) schedule.Verdict {
	return c.compile(p)
}

func (c compiled) Filter(p *schedule.PodInfo, n *schedule.NodeInfo) schedule.Verdict {
	if f := c.compile(p); f != nil {
		return f(n)
	}
	return schedule.Fits
}

// Unschedulable refuses cordoned nodes, unless the pod tolerates the taint
// node.kubernetes.io/unschedulable.
func Unschedulable() schedule.Predicate {
	cordoned := schedule.RefuseAlways("node(s) were unschedulable")
	taint := corev1.Taint{Key: corev1.TaintNodeUnschedulable, Effect: corev1.TaintEffectNoSchedule}
	return compiled{"NodeUnschedulable", nodes, func(p *schedule.PodInfo) func(*schedule.NodeInfo) schedule.Verdict {
		if nodematch.Tolerated(p.Pod.Spec.Tolerations, &taint) {
			return nil
		}
		return func(n *schedule.NodeInfo) schedule.Verdict {
			if n.Node.Spec.Unschedulable {
				return cordoned
			}
			return schedule.Fits
		}
	}}
}

// NodeName refuses all nodes except the one that a pod names. A scheduler does not get pods that
// name one; the predicate is for other callers.
func NodeName() schedule.Predicate {
	other := schedule.RefuseAlways("node(s) didn't match the requested node name")
	return compiled{"NodeName", never, func(p *schedule.PodInfo) func(*schedule.NodeInfo) schedule.Verdict {
		name := p.Pod.Spec.NodeName
		if name == "" {
			return nil
		}
		return func(n *schedule.NodeInfo) schedule.Verdict {
			if n.Node.Name != name {
				return other
			}
			return schedule.Fits
		}
	}}
}

// Taints refuses nodes with a taint of effect NoSchedule or NoExecute that the pod does not
// tolerate.
func Taints() schedule.Predicate {
	tainted := schedule.RefuseAlways("node(s) had untolerated taint(s)")
	return compiled{"TaintToleration", nodes, func(p *schedule.PodInfo) func(*schedule.NodeInfo) schedule.Verdict {
		return func(n *schedule.NodeInfo) schedule.Verdict {
			if !nodematch.Admits(n.Node, p.Pod.Spec.Tolerations) {
				return tainted
			}
			return schedule.Fits
		}
	}}
}

// HostPorts refuses nodes on which a host port of the pod is in use.
func HostPorts() schedule.Predicate {
	taken := schedule.Refuse("node(s) didn't have free ports for the requested pod ports")
	return compiled{"NodePorts", departures, func(p *schedule.PodInfo) func(*schedule.NodeInfo) schedule.Verdict {
		if len(p.Ports) == 0 {
			return nil
		}
		return func(n *schedule.NodeInfo) schedule.Verdict {
			for _, want := range p.Ports {
				for _, have := range n.Ports {
					if want.Conflicts(have) {
						return taken
					}
				}
			}
			return schedule.Fits
		}
	}}
}
