package schedule

import (
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
)

// PodInfo is a pod with the data that decisions need, computed once. It is immutable.
type PodInfo struct {
	Pod *corev1.Pod
	// Key is namespace/name.
	Key string
	// Requests holds the resources that the pod requests.
	Requests Resources
	// NonZero is Requests for scoring: containers without requests count as well.
	NonZero Resources
	// Ports are the host ports that the pod needs.
	Ports []HostPort
	// Affinity holds the terms of the pod about other pods; nil if it has none, or [TooManyTerms].
	Affinity *Affinity

	class   classKey // set once it is asked for
	encoded bool     // the pod has a class
	once    sync.Once
}

// classKey returns the key of the pod's class; ok is false if it has none.
func (p *PodInfo) classKey() (key classKey, ok bool) {
	p.once.Do(func() { p.class, p.encoded = newClassKey(p.Pod) })
	return p.class, p.encoded
}

// HostPort is a port of a node.
type HostPort struct {
	// IP is 0.0.0.0 for all addresses.
	IP       string
	Protocol corev1.Protocol
	Port     int32
}

// Conflicts reports whether a node can provide only one of both ports.
func (h HostPort) Conflicts(other HostPort) bool {
	const all = "0.0.0.0"
	return h.Port == other.Port && h.Protocol == other.Protocol &&
		(h.IP == other.IP || h.IP == all || other.IP == all)
}

// NewPodInfo computes the data that decisions need. The pod must not be changed afterwards.
func NewPodInfo(pod *corev1.Pod) *PodInfo {
	return &PodInfo{
		Pod:      pod,
		Key:      key(pod),
		Requests: requests(pod, false),
		NonZero:  requests(pod, true),
		Ports:    hostPorts(pod),
		Affinity: newAffinity(pod),
	}
}

func key(pod *corev1.Pod) string { return pod.Namespace + "/" + pod.Name }

func hostPorts(pod *corev1.Pod) []HostPort {
	var all []HostPort
	add := func(c *corev1.Container) {
		for _, p := range c.Ports {
			if p.HostPort == 0 {
				continue
			}
			h := HostPort{p.HostIP, p.Protocol, p.HostPort}
			if h.IP == "" {
				h.IP = "0.0.0.0"
			}
			if h.Protocol == "" {
				h.Protocol = corev1.ProtocolTCP
			}
			all = append(all, h)
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
	return all
}

// NodeInfo is a node with the pods on it. It belongs to a [State]; predicates
// and priorities only read it.
type NodeInfo struct {
	Node *corev1.Node
	// Allocatable holds the total resources for pods.
	Allocatable Resources
	// AllocatablePods is the maximum number of pods.
	AllocatablePods int64
	// Requested and NonZero are the sums over the pods.
	Requested, NonZero Resources
	// Ports are the host ports in use.
	Ports []HostPort
	// Pods are the pods on the node by key, including assumed ones.
	Pods map[string]*PodInfo
	// Images holds the size in bytes of each image on the node, by each of its names.
	Images map[string]int64

	position int // in State.order
	// ladder holds the pods by priority; nil if the node is a copy for a trial.
	ladder *ladder
}

func (n *NodeInfo) set(node *corev1.Node) {
	n.Node = node
	n.Allocatable = resources(node.Status.Allocatable)
	pods := node.Status.Allocatable[corev1.ResourcePods]
	n.AllocatablePods = pods.Value()
	n.Images = nil
	if len(node.Status.Images) > 0 {
		n.Images = make(map[string]int64, len(node.Status.Images))
	}
	for i := range node.Status.Images {
		for _, name := range node.Status.Images[i].Names {
			n.Images[name] = node.Status.Images[i].SizeBytes
		}
	}
}

func (n *NodeInfo) add(p *PodInfo) {
	n.Pods[p.Key] = p
	if n.ladder != nil {
		n.ladder.add(p)
	}
	n.take(p)
}

// take gives a pod what it needs of the node.
func (n *NodeInfo) take(p *PodInfo) {
	n.Requested.add(p.Requests, 1)
	n.NonZero.add(p.NonZero, 1)
	n.Ports = append(n.Ports, p.Ports...)
}

func (n *NodeInfo) remove(p *PodInfo) {
	delete(n.Pods, p.Key)
	if n.ladder != nil {
		n.ladder.remove(p)
	}
	n.free(p)
}

// free undoes take.
func (n *NodeInfo) free(p *PodInfo) {
	n.Requested.add(p.Requests, -1)
	n.NonZero.add(p.NonZero, -1)
	for _, h := range p.Ports {
		if i := slices.Index(n.Ports, h); i >= 0 {
			n.Ports = slices.Delete(n.Ports, i, i+1)
		}
	}
}
