package events

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
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
//
// What is remembered is in a few large arrays: it outlives the objects that it is about by far, and
// small pieces, spread among what is garbage by then, would keep many times their size resident.
type correlator struct {
	groups  *lru[digest, group]
	events  *lru[digest, observation]
	budgets *lru[digest, budget]
}

// digest stands for strings. Strings with the same digest cannot be made.
type digest [16]byte

func digestOf(strings ...string) digest {
	hash := sha256.New()
	for _, s := range strings {
		var length [8]byte
		binary.LittleEndian.PutUint64(length[:], uint64(len(s)))
		hash.Write(length[:])
		hash.Write([]byte(s))
	}
	return digest(hash.Sum(nil)[:len(digest{})])
}

// within returns the digest of strings that belong to what d stands for.
func (d digest) within(strings ...string) digest {
	return digestOf(append([]string{string(d[:])}, strings...)...)
}

// budgetOf stands for whose events are limited together: those of an object, warnings and others
// apart.
func budgetOf(e *corev1.Event) digest {
	about := e.InvolvedObject // without revision and field path
	return digestOf(about.APIVersion, about.Kind, about.Namespace, about.Name, string(about.UID), e.Type)
}

// group is what was said lately for one reason of one budget: the last messages.
type group struct {
	messages [similar - 1]digest
	count    int
	at       time.Time
}

// observation is what is known of an event that may be repeated. Events are the same if group, field
// path and message are; one that stands for a group has no message.
type observation struct {
	// name is empty where it follows from the object and the time.
	name  string
	first time.Time
	count int32
}

type budget struct {
	left float64
	at   time.Time
}

func newCorrelator() *correlator {
	return &correlator{
		groups:  newLRU[digest, group](remembered),
		events:  newLRU[digest, observation](remembered),
		budgets: newLRU[digest, budget](remembered),
	}
}

// admit says what to store for e, if anything: e itself, or an event that stands
// for e and others like it. With a count above one it is likely to be stored
// already, under the same name.
func (c *correlator) admit(e *corev1.Event) (*corev1.Event, bool) {
	out := e.DeepCopy()
	budget := budgetOf(e)
	group := budget.within(e.Reason)
	key := group.within("alone", e.InvolvedObject.FieldPath, e.Message)
	if c.combines(group, e) {
		out.Message = combined + e.Message
		key = group.within("combined")
	}
	if seen := c.events.get(key); seen != nil {
		seen.count++
		out.Name, out.FirstTimestamp, out.Count = seen.name, metav1.NewTime(seen.first), seen.count
		if seen.name == "" {
			out.Name = timedName(e.InvolvedObject.Name, seen.first)
		}
	} else {
		o := observation{name: out.Name, first: out.FirstTimestamp.Time, count: out.Count}
		if o.name == timedName(e.InvolvedObject.Name, o.first) {
			o.name = ""
		}
		c.events.put(key, o)
	}
	return out, c.affords(budget, e.LastTimestamp.Time)
}

// combines takes e into its group and says whether there are so many messages in
// it that one event has to stand for this one and all further ones. Those
// before go on by themselves.
func (c *correlator) combines(key digest, e *corev1.Event) bool {
	now := e.LastTimestamp.Time
	g := c.groups.get(key)
	if g == nil {
		g = c.groups.put(key, group{})
	}
	if now.Sub(g.at) > together {
		g.count = 0
	}
	g.at = now
	message := digestOf(e.Message)
	known := slices.Contains(g.messages[:g.count], message)
	if g.count == similar-1 && !known {
		return true // it is not taken in; client-go takes out any one of them
	}
	if !known {
		g.messages[g.count] = message
		g.count++
	}
	return false
}

// affords takes an event out of a budget.
func (c *correlator) affords(key digest, now time.Time) bool {
	b := c.budgets.get(key)
	if b == nil {
		b = c.budgets.put(key, budget{left: burst, at: now})
	}
	b.left = min(burst, b.left+now.Sub(b.at).Seconds()/refill.Seconds())
	b.at = now
	if b.left < 1 {
		return false
	}
	b.left--
	return true
}
