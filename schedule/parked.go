package schedule

import (
	"container/heap"
	"slices"
	"time"
)

// group is the parked pods of one class. What refuses one of them refuses all, so that they share an error. If
// an event may help, one of them is tried as a probe. If it gets a node, the next one is tried; if not, the
// other pods stay parked.
type group struct {
	class   string
	unfit   *FitError
	members members
	// probe is the pod that is tried; nil if none is.
	probe *entry
	// event is the reason of the last probe, and woken its time.
	event string
	woken time.Time
}

// rules holds what the queue asks about errors.
type rules struct {
	// alike reports whether an error holds for all pods of a class.
	alike func(*FitError) bool
	// errorFor returns a copy of an error for another pod of the class.
	errorFor func(*FitError, *PodInfo) *FitError
}

// join adds a parked entry to the group of a class; an empty class has no group.
func (q *queue) join(e *entry, class string, unfit *FitError) {
	if class == "" {
		e.unfit = unfit
		q.singles[e] = struct{}{}
		return
	}
	g := q.groups[class]
	if g == nil {
		g = &group{class: class}
		q.groups[class] = g
	}
	g.unfit, e.group = unfit, g // the newest error is the best one
	heap.Push(&g.members, e)
}

// leave removes an entry that is parked no longer from its group.
func (q *queue) leave(e *entry) {
	e.unfit = nil
	delete(q.singles, e)
	if g := e.group; g != nil {
		heap.Remove(&g.members, e.member)
		e.group = nil
		q.drop(g)
	}
}

// drop forgets a group that is not needed any more.
func (q *queue) drop(g *group) {
	if len(g.members) == 0 && g.probe == nil && q.groups[g.class] == g {
		delete(q.groups, g.class)
	}
}

// try makes the pod of a group ready whose backoff ends first. The other ones wait for its result.
func (q *queue) try(g *group, event string, now time.Time) {
	if len(g.members) == 0 {
		q.drop(g)
		return
	}
	e := g.members[0]
	g.probe, g.event, g.woken = e, event, now
	e.probes = g
	q.wake(e, event, now)
}

// endProbe takes the probe of a group back, and returns the group; nil if the entry is no probe.
func (q *queue) endProbe(e *entry) *group {
	g := e.probes
	if g != nil {
		g.probe, e.probes = nil, nil
	}
	return g
}

// tryNext ends a probe that says nothing about the rest of its group, and tries the next pod.
func (q *queue) tryNext(e *entry) {
	if g := q.endProbe(e); g != nil {
		q.try(g, g.event, g.woken)
	}
}

// placed notes that a popped pod has a node.
func (q *queue) placed(p *PodInfo) {
	if e := q.entries[p.Key]; q.holds(p) {
		q.tryNext(e)
	}
}

// wakeOthers makes all pods of a group but one ready, after their backoff: they need a new message.
func (q *queue) wakeOthers(one *entry, now time.Time) {
	for _, e := range slices.Clone(one.group.members) {
		if e != one {
			q.wake(e, one.group.event, now)
		}
	}
}

// isolate lets a parked pod be tried itself.
func (q *queue) isolate(p *PodInfo) {
	e := q.entries[p.Key]
	if !q.holds(p) || e.where != &q.parked || e.group == nil {
		return
	}
	unfit := q.rules.errorFor(e.group.unfit, e.pod)
	q.leave(e)
	q.join(e, "", unfit)
}

// wakeIf makes the parked pods ready, after their backoff, for which helped returns true, and of each group
// only one. e is the reason.
func (q *queue) wakeIf(helped func(*FitError) bool, e Event, now time.Time) {
	for _, g := range q.groups {
		if g.probe != nil {
			continue // it sees what the event has changed
		}
		helps := helped(g.unfit)
		if !q.rules.alike(g.unfit) { // other predicates refuse it now
			q.dissolve(g)
		} else if helps {
			q.try(g, e.label(), now)
		}
	}
	var woken []*entry
	for one := range q.singles {
		if helped(one.unfit) {
			woken = append(woken, one)
		}
	}
	if len(woken) == 0 {
		return
	}
	event := e.label()
	for _, one := range woken {
		q.wake(one, event, now)
	}
}

// dissolve makes single pods of those of a group.
func (q *queue) dissolve(g *group) {
	for len(g.members) > 0 {
		q.isolate(g.members[0].pod)
	}
}

// members is a heap of entries by the end of their backoff.
type members []*entry

func (m members) Len() int           { return len(m) }
func (m members) Less(i, j int) bool { return m[i].until.Before(m[j].until) }
func (m members) Swap(i, j int) {
	m[i], m[j] = m[j], m[i]
	m[i].member, m[j].member = i, j
}

// Push implements heap.Interface.
func (m *members) Push(x any) {
	e := x.(*entry)
	e.member = len(*m)
	*m = append(*m, e)
}

// Pop implements heap.Interface.
func (m *members) Pop() any {
	last := len(*m) - 1
	e := (*m)[last]
	(*m)[last] = nil
	*m = (*m)[:last]
	return e
}
