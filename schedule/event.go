package schedule

import (
	"maps"

	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	apiequality "k8s.io/apimachinery/pkg/api/equality"
)

// An Event is a change that may help a pod that fits no node: of a node, of a namespace, of a pod
// on a node, or of an object in a cache of Config.Sources. Use [Changed] to read it.
//
// A pod appears in events while it is on a node: it is new when a decision puts it there, and gone
// when it ends, is deleted, or could not be bound. Changes of only the status of a pod that has not
// ended are not reported.
type Event struct {
	// Old and New are of the same type: *corev1.Node, *corev1.Namespace, *PodInfo, or the type of
	// the objects in a cache of Config.Sources. Old is nil if the object is new, New if it is gone.
	Old, New any

	// nodes are the nodes whose NodeInfo has changed; nil if there is none.
	nodes [2]*NodeInfo
}

// Changed returns the object before and after an event that is about a T; ok is false if the event
// is about another type. A missing object is the zero T.
func Changed[T any](e Event) (old, now T, ok bool) {
	old, was := e.Old.(T)
	now, is := e.New.(T)
	return old, now, was || is
}

// A Waker is a [Predicate] or an [Extension] that knows which events can help a pod that it refused. Without
// Wakes, every event can. Wakes must return true for each event after which the predicate may accept a
// node that it refused before the event; true for other events costs only time.
//
// If a predicate is not a [Preparer] and the event is about a node or a pod on one, the answer
// true means that this node is checked again. In all other cases it means that all nodes are.
// Wakes must not change its arguments. It is called by one goroutine at a time.
type Waker interface {
	Name() string
	Wakes(*PodInfo, Event) bool
}

// A Source reports events of objects other than nodes, pods and namespaces; see [Changes].
type Source func(report func(Event)) localcache.Subscription

// Changes returns the changes in a cache as a source of events. Predicates that depend on the cache
// must be a [Waker] or a [Preparer]: a Filter without Wakes is taken to depend on the node alone.
func Changes[T comparable](cache localcache.Subscriber[T]) Source {
	return func(report func(Event)) localcache.Subscription {
		return cache.Subscribe(func(old, now T) { report(change(old, now)) })
	}
}

// change returns the event of a change whose zero objects are missing.
func change[T comparable](old, now T, nodes ...*NodeInfo) Event {
	var e Event
	var zero T
	if old != zero {
		e.Old = old
	}
	if now != zero {
		e.New = now
	}
	copy(e.nodes[:], nodes)
	return e
}

// none is the event of a change that no decision depends on.
var none = Event{}

func (e Event) isNone() bool { return e.Old == nil && e.New == nil }

// trivial reports whether an event changes only the status of a pod, which is most events.
func (e Event) trivial() bool {
	old, now, ok := Changed[*PodInfo](e)
	if !ok || old == nil || now == nil || e.nodes[1] != nil {
		return e.isNone()
	}
	a, b := old.Pod, now.Pod
	if a.UID != b.UID || (a.DeletionTimestamp == nil) != (b.DeletionTimestamp == nil) ||
		!maps.Equal(a.Labels, b.Labels) || !maps.Equal(a.Annotations, b.Annotations) {
		return false
	}
	// The spec of an assumed pod differs from that of the bound one by the name of its node.
	if a.Spec.NodeName == "" {
		assumed := *a
		assumed.Spec.NodeName = b.Spec.NodeName
		a = &assumed
	}
	return apiequality.Semantic.DeepEqual(a.Spec, b.Spec)
}

// Helps reports whether an event may help the pod of err, which is an error of Decide of the same
// State. It must be called after each change of the State, with the event of that change: it is
// exact if all predicates report exactly which events they need, and never misses an event if none
// of them does. A new node always helps: the message counts nodes.
func (s *State) Helps(err *FitError, e Event) bool {
	if old, now, ok := Changed[*corev1.Node](e); ok && old == nil && now != nil {
		return true
	}
	if err.afterwards {
		return err.waker == nil || err.waker.Wakes(err.pod, e)
	}
	if err.extended != nil {
		return !heartbeat(e) // it is not known what extenders depend on
	}
	recheck := false
	for _, i := range err.by {
		p := s.profileOf(err.pod).Predicates[i]
		if w, ok := p.(Waker); ok && !w.Wakes(err.pod, e) {
			continue
		}
		if _, ok := p.(Preparer); ok {
			return true
		}
		if e.nodes[0] != nil {
			recheck = true
		} else if _, ok := p.(Waker); ok {
			return true
		}
	}
	if !recheck {
		return false
	}
	for _, n := range e.nodes {
		if n != nil && n.Node != nil && s.accepts(err, n) {
			return true
		}
	}
	return false
}

// accepts reports whether a node accepts the pod of err now. If a predicate refuses it, later
// events may change that, so err records the predicate.
func (s *State) accepts(err *FitError, n *NodeInfo) bool {
	f := filters{state: s, pod: err.pod, local: err.local, isCompiled: true}
	v, predicate := s.judge(&f, n)
	if !v.OK() {
		err.by.add(predicate)
	}
	return v.OK()
}

// refusers returns the names of the predicates, or of the extension, that err is of.
func (s *State) refusers(err *FitError) []string {
	if err.afterwards {
		return []string{err.extension}
	}
	var names []string
	for _, i := range err.by {
		names = append(names, s.profileOf(err.pod).Predicates[i].Name())
	}
	return names
}
