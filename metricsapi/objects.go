package metricsapi

import (
	"cmp"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
)

// nodeMetrics returns the usage of a node; nil if it is not known.
func (s *Server) nodeMetrics(node *corev1.Node) *NodeMetrics {
	r := s.report(node.Name)
	if r == nil || r.node == nil {
		return nil
	}
	return &NodeMetrics{
		TypeMeta:   typeOf("NodeMetrics"),
		ObjectMeta: metadataOf(&node.ObjectMeta),
		Timestamp:  metav1.NewTime(r.node.at), Window: metav1.Duration{Duration: r.node.window},
		Usage: r.node.resources(),
	}
}

// podMetrics returns the usage of a pod; nil if it is not known.
func (s *Server) podMetrics(pod *corev1.Pod) *PodMetrics {
	r := s.report(pod.Spec.NodeName)
	if r == nil {
		return nil
	}
	used, ok := r.pods[pod.Namespace+"/"+pod.Name]
	if !ok || used.uid != string(pod.UID) {
		return nil
	}
	m := &PodMetrics{TypeMeta: typeOf("PodMetrics"), ObjectMeta: metadataOf(&pod.ObjectMeta)}
	for name, u := range used.containers {
		m.Containers = append(m.Containers, ContainerMetrics{Name: name, Usage: u.resources()})
		if at := metav1.NewTime(u.at); m.Timestamp.IsZero() || at.Before(&m.Timestamp) {
			m.Timestamp, m.Window = at, metav1.Duration{Duration: u.window}
		}
	}
	slices.SortFunc(m.Containers, func(a, b ContainerMetrics) int { return cmp.Compare(a.Name, b.Name) })
	return m
}

func typeOf(kind string) metav1.TypeMeta {
	return metav1.TypeMeta{APIVersion: GroupVersion.String(), Kind: kind}
}

// metadataOf returns the metadata of the usage of an object. The labels are shared.
func metadataOf(of *metav1.ObjectMeta) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: of.Namespace, Name: of.Name, Labels: of.Labels, CreationTimestamp: metav1.Now().Rfc3339Copy()}
}

// selection says which objects a list has.
type selection struct {
	namespace string // empty means all
	labels    labels.Selector
	fields    fields.Selector
}

func (s *selection) matches(of *metav1.ObjectMeta) bool {
	return (s.namespace == "" || s.namespace == of.Namespace) && s.labels.Matches(labels.Set(of.Labels)) &&
		s.fields.Matches(fields.Set{"metadata.name": of.Name, "metadata.namespace": of.Namespace})
}

// listNodes returns the usage of the selected nodes for which it is known, by name.
func (s *Server) listNodes(which *selection) []NodeMetrics {
	out := []NodeMetrics{}
	for node := range s.config.Nodes.All() {
		if which.matches(&node.ObjectMeta) {
			if m := s.nodeMetrics(node); m != nil {
				out = append(out, *m)
			}
		}
	}
	slices.SortFunc(out, func(a, b NodeMetrics) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// listPods returns the usage of the selected pods for which it is known, by namespace and name.
func (s *Server) listPods(which *selection) []PodMetrics {
	out := []PodMetrics{}
	for pod := range s.config.Pods.All() {
		if which.matches(&pod.ObjectMeta) {
			if m := s.podMetrics(pod); m != nil {
				out = append(out, *m)
			}
		}
	}
	slices.SortFunc(out, func(a, b PodMetrics) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}
