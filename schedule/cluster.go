package schedule

import (
	"iter"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// A Cluster is the view of all nodes during one decision. Pods for which a decision was made count
// as on their nodes, although their binding may still be in progress. The view is valid only during
// the call that it is passed to, and in the function that the call returns.
type Cluster interface {
	// Nodes yields the nodes in no particular order.
	Nodes() iter.Seq[*NodeInfo]
	// Size returns the number of nodes.
	Size() int
	// Node returns a node by name.
	Node(name string) (*NodeInfo, bool)
	// Namespace returns a namespace by name, if the scheduler has a cache of namespaces; see
	// [Config].
	Namespace(name string) (*corev1.Namespace, bool)
	// Topology returns how a label divides the nodes into domains.
	Topology(key string) *Topology
	// Terms yields the terms of kind of pods on nodes, in no particular order. Those of several pods that are
	// the same are one.
	Terms(kind TermKind) iter.Seq[*TermCount]
	// Count returns how many pods of a namespace that selector matches are on each node. The counts of
	// the last selectors are kept up to date, so that only the first call looks at all pods.
	Count(namespace string, selector labels.Selector) *PodCount
	// NodesWithImage returns on how many nodes an image is, by one of its names.
	NodesWithImage(name string) int
}

// A Preparer is a [Predicate] whose verdict about a node also depends on other nodes, on the pods
// on them, or on namespaces. Prepare is called at most once for each decision, and only if the
// Filters of all predicates accept at least one node. It returns the check of a node, or nil if the
// pod fits all nodes, also if some of the pods on them were not there; the check is called for nodes
// that all Filters accept. Filter says what can be said of a node alone: it may return [Fits] for
// every node.
//
// Prepare must do no IO. It must not change its arguments. It and the check are called by one
// goroutine at a time.
type Preparer interface {
	Predicate
	Prepare(*PodInfo, Cluster) func(*NodeInfo) Verdict
}

// view is the Cluster of a State.
type view struct{ *State }

func (v view) Nodes() iter.Seq[*NodeInfo] {
	return func(yield func(*NodeInfo) bool) {
		for _, n := range v.order {
			if !yield(n) {
				return
			}
		}
	}
}

func (v view) Size() int { return len(v.order) }

func (v view) Node(name string) (*NodeInfo, bool) {
	n := v.nodes[name]
	if n == nil || n.Node == nil {
		return nil, false
	}
	return n, true
}

func (v view) Namespace(name string) (*corev1.Namespace, bool) {
	n, ok := v.namespaces[name]
	return n, ok
}

func (v view) Topology(key string) *Topology { return v.topology(key) }

func (v view) Terms(kind TermKind) iter.Seq[*TermCount] {
	return func(yield func(*TermCount) bool) {
		for _, t := range v.terms[kind] {
			if !yield(t) {
				return
			}
		}
	}
}

func (v view) Count(namespace string, selector labels.Selector) *PodCount {
	return v.counts.get(namespace, selector, v.State)
}

func (v view) NodesWithImage(name string) int { return v.images[name] }
