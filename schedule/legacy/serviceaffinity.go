package legacy

import (
	"github.com/planekit/planekit/schedule"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// ServiceAffinity keeps the pods of a service on nodes with the same values of labels: those in the pod's
// nodeSelector, and for other labels those of a node that already has a pod with the labels of the pod. Of
// several such nodes it is the first by name. A pod without a service and without these labels in its
// nodeSelector fits all nodes.
//
// Pods that wait are woken by changes of services only if [schedule.Config] has them as a source.
func ServiceAffinity(services Services, labels ...string) schedule.Predicate {
	return serviceAffinity{services, labels}
}

type serviceAffinity struct {
	services Services
	labels   []string
}

var apartFromService = schedule.Refuse("node(s) didn't match service affinity")

func (serviceAffinity) Name() string { return "ServiceAffinity" }

// Filter implements [schedule.Predicate]. Of one node alone nothing can be said.
func (serviceAffinity) Filter(*schedule.PodInfo, *schedule.NodeInfo) schedule.Verdict {
	return schedule.Fits
}

// Prepare implements [schedule.Preparer].
func (s serviceAffinity) Prepare(p *schedule.PodInfo, c schedule.Cluster) func(*schedule.NodeInfo) schedule.Verdict {
	wanted := labels.Set{}
	s.complete(wanted, p.Pod.Spec.NodeSelector)
	if len(wanted) < len(s.labels) && len(servicesOf(s.services, p.Pod)) > 0 {
		if n := companion(p.Pod, c); n != nil {
			s.complete(wanted, n.Labels)
		}
	}
	if len(wanted) == 0 {
		return nil
	}
	selector := wanted.AsSelector()
	return func(n *schedule.NodeInfo) schedule.Verdict {
		if !selector.Matches(labels.Set(n.Node.Labels)) {
			return apartFromService
		}
		return schedule.Fits
	}
}

// complete adds the values of labels that wanted does not have.
func (s serviceAffinity) complete(wanted, from map[string]string) {
	for _, label := range s.labels {
		_, has := wanted[label]
		if value, ok := from[label]; ok && !has {
			wanted[label] = value
		}
	}
}

// companion returns the first node by name with a pod that has all labels of a pod.
func companion(pod *corev1.Pod, c schedule.Cluster) (first *corev1.Node) {
	for n := range c.Count(pod.Namespace, labels.Set(pod.Labels).AsSelector()).Nodes() {
		if first == nil || n.Node.Name < first.Name {
			first = n.Node
		}
	}
	return first
}

// Wakes implements [schedule.Waker]: labels of nodes, services of the pod, and pods with its labels.
func (serviceAffinity) Wakes(p *schedule.PodInfo, e schedule.Event) bool {
	if old, now, ok := schedule.Changed[*corev1.Service](e); ok {
		return selects(old, p.Pod) || selects(now, p.Pod)
	}
	old, now, ok := schedule.Changed[*schedule.PodInfo](e)
	if !ok {
		return relabels(e)
	}
	selector := labels.Set(p.Pod.Labels).AsSelector()
	like := func(other *schedule.PodInfo) bool {
		return other != nil && other.Pod.Namespace == p.Pod.Namespace && selector.Matches(labels.Set(other.Pod.Labels))
	}
	return like(old) || like(now)
}

// ServiceAntiAffinity spreads the pods of a service over the values of a label of nodes. Nodes without the
// label have the score 0. Of several services of a pod, the first by name counts.
func ServiceAntiAffinity(services Services, label string) schedule.Priority {
	return survey{"ServiceAffinity", func(p *schedule.PodInfo, c schedule.Cluster, nodes []*schedule.NodeInfo) func(*schedule.NodeInfo) int64 {
		selector := labels.Everything()
		if list := servicesOf(services, p.Pod); len(list) > 0 {
			selector = labels.SelectorFromSet(list[0].Spec.Selector)
		}
		on := staying(c, p.Pod.Namespace, selector)
		all, byValue := int64(0), make(map[string]int64)
		for _, n := range nodes {
			all += on(n)
			if value, ok := n.Node.Labels[label]; ok {
				byValue[value] += on(n)
			}
		}
		return func(n *schedule.NodeInfo) int64 {
			value, ok := n.Node.Labels[label]
			if !ok {
				return 0
			}
			return int64(shareLeft(byValue[value], all))
		}
	}}
}
