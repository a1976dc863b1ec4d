package events

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// These are the limits of client-go.
const (
	remembered = 4096            // events, groups of similar ones, and objects
	burst      = 25              // events of one object at once
	refill     = 5 * time.Minute // until the next one is allowed

	similar  = 10               // messages of a group, from which on they are combined
	together = 10 * time.Minute // at most between two events of a group
)

// combined begins the message of an event that represents a group.
const combined = "(combined from similar events): "

// correlator decides what to do with an event. It has no IO and no clock: it uses the times of the
// events. Like client-go's, it first combines similar events, then counts repeated ones, and then
// drops those over the limit, so that dropped events are still counted.
//
// The state is in a few large arrays. It outlives the objects that it is about; small pieces,
// spread among garbage, would keep many times their size resident.
type correlator struct {
	groups  *lru[digest, group]
	events  *lru[digest, observation]
	budgets *lru[digest, budget]
}

// digest is a cryptographic hash of strings, so that no two lists of strings have the same one.
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

// within returns the digest of d's strings followed by further ones.
func (d digest) within(strings ...string) digest {
	return digestOf(append([]string{string(d[:])}, strings...)...)
}

// budgetOf returns the digest that identifies the budget of e: one for an object's warnings and one
// for its other events.
func budgetOf(e *corev1.Event) digest {
	about := e.InvolvedObject // without revision and field path
	return digestOf(about.APIVersion, about.Kind, about.Namespace, about.Name, string(about.UID), e.Type)
}

// group holds the latest messages that one budget had for one reason.
type group struct {
	messages [similar - 1]digest
	count    int
	at       time.Time
}

// observation counts an event that may repeat. Two events are the same if their group, field path
// and message are equal. An event that represents a group has no message.
type observation struct {
	// name is empty if it follows from the object and the time.
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

// admit returns the event to store for e, if any: e itself, or an event that represents e and
// similar ones. If its count is above one, it is probably stored already, under the same name. The key
// is for rename.
func (c *correlator) admit(e *corev1.Event) (*corev1.Event, digest, bool) {
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
	return out, key, c.affords(budget, e.LastTimestamp.Time)
}

// rename records that an event was stored under another name than its own.
func (c *correlator) rename(key digest, name string) {
	if seen := c.events.get(key); seen != nil {
		seen.name = name
	}
}

// combines adds e to its group. It reports whether the group has so many messages that one event
// must represent this and all further ones. Earlier events continue on their own.
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
		return true // e is not added; client-go instead removes an arbitrary message
	}
	if !known {
		g.messages[g.count] = message
		g.count++
	}
	return false
}

// affords takes an event out of a budget and reports whether there was one left.
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
