package events

import (
	"container/list"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// The limits of client-go.
const (
	remembered = 4096            // events, groups of similar ones, and objects
	burst      = 25              // events of one object at once
	refill     = 5 * time.Minute // until the next one is allowed

	similar  = 10               // messages of a group, from which on they are combined
	together = 10 * time.Minute // at most between two events of one group
)

// combined begins the message of an event that stands for a group.
const combined = "(combined from similar events): "

// correlator decides, without IO or clock, what becomes of an event: the times
// it goes by are those of the events. Like client-go's, it first combines
// similar events, then counts repeated ones, and then drops what is too much;
// so what is dropped is still counted.
type correlator struct {
	groups  *lru[groupKey, *group]
	events  *lru[eventKey, *observation]
	budgets *lru[budgetKey, *budget]
}

// budgetKey is whose events are limited together: those of an object, warnings
// and others apart.
type budgetKey struct {
	about corev1.ObjectReference // without revision and field path
	kind  string
}

// groupKey is what makes two events similar.
type groupKey struct {
	budget budgetKey
	reason string
}

// eventKey is what makes two events the same. That of a group has no message.
type eventKey struct {
	group     groupKey
	combined  bool
	fieldPath string
	message   string
}

// group is what was said lately for one reason.
type group struct {
	messages map[string]struct{}
	at       time.Time
}

// observation is what is known of an event that may be repeated.
type observation struct {
	name  string
	first metav1.Time
	count int32
}

type budget struct {
	left float64
	at   time.Time
}

func newCorrelator() *correlator {
	return &correlator{
		groups:  newLRU[groupKey, *group](remembered),
		events:  newLRU[eventKey, *observation](remembered),
		budgets: newLRU[budgetKey, *budget](remembered),
	}
}

func groupOf(e *corev1.Event) groupKey {
	about := e.InvolvedObject
	about.ResourceVersion, about.FieldPath = "", ""
	return groupKey{budget: budgetKey{about: about, kind: e.Type}, reason: e.Reason}
}

// admit says what to store for e, if anything: e itself, or an event that stands
// for e and others like it. With a count above one it is likely to be stored
// already, under the same name.
func (c *correlator) admit(e *corev1.Event) (*corev1.Event, bool) {
	out := e.DeepCopy()
	key := eventKey{group: groupOf(e), fieldPath: e.InvolvedObject.FieldPath, message: e.Message}
	if c.combines(key.group, e) {
		out.Message = combined + e.Message
		key = eventKey{group: key.group, combined: true}
	}
	if seen, ok := c.events.get(key); ok {
		seen.count++
		out.Name, out.FirstTimestamp, out.Count = seen.name, seen.first, seen.count
	} else {
		c.events.put(key, &observation{name: out.Name, first: out.FirstTimestamp, count: out.Count})
	}
	return out, c.affords(key.group.budget, e.LastTimestamp.Time)
}

// combines takes e into its group and says whether there are so many messages in
// it that one event has to stand for this one and all further ones. Those
// before go on by themselves.
func (c *correlator) combines(key groupKey, e *corev1.Event) bool {
	now := e.LastTimestamp.Time
	g, ok := c.groups.get(key)
	if !ok || now.Sub(g.at) > together {
		g = &group{messages: make(map[string]struct{}, similar)}
		c.groups.put(key, g)
	}
	g.at = now
	g.messages[e.Message] = struct{}{}
	if len(g.messages) < similar {
		return false
	}
	delete(g.messages, e.Message) // client-go takes out any one of them
	return true
}

// affords takes an event out of a budget.
func (c *correlator) affords(key budgetKey, now time.Time) bool {
	b, ok := c.budgets.get(key)
	if !ok {
		b = &budget{left: burst, at: now}
		c.budgets.put(key, b)
	}
	b.left = min(burst, b.left+now.Sub(b.at).Seconds()/refill.Seconds())
	b.at = now
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}

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
