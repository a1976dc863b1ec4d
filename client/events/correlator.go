package events

import (
	"container/list"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// The limits of client-go.
const (
	remembered = 4096            // events, and as many objects
	burst      = 25              // events of one object at once
	refill     = 5 * time.Minute // until the next one is allowed
)

// correlator decides, without IO or clock, what becomes of an event: the times
// it goes by are those of the events.
type correlator struct {
	events  *lru[eventKey, *corev1.Event]
	budgets *lru[corev1.ObjectReference, *budget]
}

// eventKey is what makes two events the same.
type eventKey struct {
	about           corev1.ObjectReference
	kind            string
	reason, message string
}

type budget struct {
	left float64
	at   time.Time
}

func newCorrelator() *correlator {
	return &correlator{
		events:  newLRU[eventKey, *corev1.Event](remembered),
		budgets: newLRU[corev1.ObjectReference, *budget](remembered),
	}
}

func keyOf(e *corev1.Event) eventKey {
	return eventKey{about: subjectOf(e), kind: e.Type, reason: e.Reason, message: e.Message}
}

// subjectOf names the object regardless of its revision.
func subjectOf(e *corev1.Event) corev1.ObjectReference {
	about := e.InvolvedObject
	about.ResourceVersion = ""
	return about
}

// admit says whether e may be stored, and which stored event it repeats.
func (c *correlator) admit(e *corev1.Event) (*corev1.Event, bool) {
	now := e.LastTimestamp.Time
	b, ok := c.budgets.get(subjectOf(e))
	if !ok {
		b = &budget{left: burst, at: now}
		c.budgets.put(subjectOf(e), b)
	}
	b.left = min(burst, b.left+now.Sub(b.at).Seconds()/refill.Seconds())
	b.at = now
	if b.left < 1 {
		return nil, false
	}
	b.left--
	stored, _ := c.events.get(keyOf(e))
	return stored, true
}

// stored remembers the event that stands for all that equal e.
func (c *correlator) stored(e, result *corev1.Event) { c.events.put(keyOf(e), result) }

// lru is a map that forgets what was not used for longest.
type lru[K comparable, V any] struct {
	limit int
	order *list.List // of *entry, the last used in front
	items map[K]*list.Element
}

type entry[K comparable, V any] struct {
	key   K
	value V
}

func newLRU[K comparable, V any](limit int) *lru[K, V] {
	return &lru[K, V]{limit: limit, order: list.New(), items: make(map[K]*list.Element)}
}

func (l *lru[K, V]) get(key K) (V, bool) {
	element, ok := l.items[key]
	if !ok {
		var zero V
		return zero, false
	}
	l.order.MoveToFront(element)
	return element.Value.(*entry[K, V]).value, true
}

func (l *lru[K, V]) put(key K, value V) {
	if element, ok := l.items[key]; ok {
		element.Value.(*entry[K, V]).value = value
		l.order.MoveToFront(element)
		return
	}
	l.items[key] = l.order.PushFront(&entry[K, V]{key, value})
	if len(l.items) > l.limit {
		oldest := l.order.Remove(l.order.Back()).(*entry[K, V])
		delete(l.items, oldest.key)
	}
}
