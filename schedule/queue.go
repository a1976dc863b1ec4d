package schedule

import (
	"container/heap"
	"time"
)

// How long pods wait, as in kube-scheduler.
const (
	defaultBackoff    = time.Second
	defaultMaxBackoff = 10 * time.Second
	flushAfter        = 5 * time.Minute
)

// queue holds the pods that need a node. Each is ready, in the order of priority and age, or ready for the
// extenders; backing off until a time; or parked until an event. Its methods take the time as an argument.
type queue struct {
	entries map[string]*entry
	ready   entries // by priority and age
	turns   entries // by the same: extenders are asked about one pod at a time
	backoff entries // by until
	parked  entries // by since
	// Each parked entry is in a group or one of the singles.
	groups  map[string]*group
	singles map[*entry]struct{}
	rules   rules

	firstBackoff, maxBackoff time.Duration
	// queued is called when a pod enters one of the three, with the event that is the reason.
	queued func(queue, event string)
}

type entry struct {
	pod      *PodInfo
	attempts int
	// first is the time of the first attempt.
	first time.Time
	// since is the time of the last failed attempt.
	since time.Time
	// until is the end of the backoff.
	until time.Time
	// unfit says why a parked pod that is in no group fits no node.
	unfit *FitError
	// A parked pod may have a group, and member is its place there. A pod may be tried for the group probes.
	group, probes *group
	member        int
	// flushed says that the pod was parked for too long before it became ready.
	flushed bool
	// renewed says that the pod has changed since it was popped.
	renewed bool
	// refusers are the names of what has refused the pod in its last attempt.
	refusers []string
	// attempt is the one for which the pod waits for extenders.
	attempt *attempt
	where   *entries // nil when popped
	index   int
}

func newQueue(c *Config, r rules) *queue {
	q := &queue{
		entries: make(map[string]*entry), groups: make(map[string]*group), singles: make(map[*entry]struct{}),
		rules: r, firstBackoff: c.InitialBackoff, maxBackoff: c.MaxBackoff, queued: c.Meters.queued,
	}
	q.ready.less = func(a, b *entry) bool {
		if pa, pb := priority(a.pod), priority(b.pod); pa != pb {
			return pa > pb
		}
		ta, tb := &a.pod.Pod.CreationTimestamp, &b.pod.Pod.CreationTimestamp
		if !ta.Equal(tb) {
			return ta.Before(tb)
		}
		return a.pod.Key < b.pod.Key
	}
	q.turns.less = q.ready.less
	q.ready.name, q.backoff.name, q.parked.name = "active", "backoff", "unschedulable"
	q.backoff.less = func(a, b *entry) bool { return a.until.Before(b.until) }
	q.parked.less = func(a, b *entry) bool { return a.since.Before(b.since) }
	return q
}

func priority(p *PodInfo) int32 {
	if p.Pod.Spec.Priority == nil {
		return 0
	}
	return *p.Pod.Spec.Priority
}

// set adds a pod, or updates a waiting one. hopeful means that the change may help a parked pod.
func (q *queue) set(p *PodInfo, hopeful bool, now time.Time) {
	e := q.entries[p.Key]
	if !q.holds(p) {
		q.remove(p.Key)
		e = &entry{pod: p}
		q.entries[p.Key] = e
		q.push(&q.ready, e, podAdded)
		return
	}
	e.pod = p
	if e.where != nil {
		heap.Fix(e.where, e.index)
	}
	if !hopeful {
		return
	}
	switch e.where {
	case nil:
		e.renewed = true
	case &q.parked:
		q.wake(e, podUpdated, now)
	}
}

// push adds an entry to one of the queues.
func (q *queue) push(to *entries, e *entry, event string) {
	heap.Push(to, e)
	q.queued(to.name, event)
}

// holds reports whether p, or an older version of it, is in the queue.
func (q *queue) holds(p *PodInfo) bool {
	e := q.entries[p.Key]
	return e != nil && e.pod.Pod.UID == p.Pod.UID
}

func (q *queue) remove(key string) {
	e := q.entries[key]
	if e == nil {
		return
	}
	delete(q.entries, key)
	if e.where != nil {
		heap.Remove(e.where, e.index)
	}
	q.leave(e)
	q.tryNext(e)
}

// pop takes the first ready pod. It stays in the queue until it is removed, or put back by park or
// retry.
func (q *queue) pop(now time.Time) (*attempt, bool) {
	q.tick(now)
	if q.ready.Len() == 0 {
		return nil, false
	}
	e := heap.Pop(&q.ready).(*entry)
	e.attempts++
	e.refusers, e.renewed = nil, false
	if e.first.IsZero() {
		e.first = now
	}
	a := &attempt{pod: e.pod, began: now, first: e.first, count: e.attempts, flushed: e.flushed}
	e.flushed = false
	return a, true
}

// tick makes the pods ready that have waited long enough.
func (q *queue) tick(now time.Time) {
	for q.backoff.Len() > 0 && !q.backoff.list[0].until.After(now) {
		q.push(&q.ready, heap.Pop(&q.backoff).(*entry), backoffComplete)
	}
	for q.parked.Len() > 0 && !q.parked.list[0].since.Add(flushAfter).After(now) {
		q.parked.list[0].flushed = true
		q.wake(q.parked.list[0], parkedTooLong, now)
	}
}

// next returns the time at which tick has something to do.
func (q *queue) next() (time.Time, bool) {
	var at time.Time
	if q.backoff.Len() > 0 {
		at = q.backoff.list[0].until
	}
	if q.parked.Len() > 0 {
		if t := q.parked.list[0].since.Add(flushAfter); at.IsZero() || t.Before(at) {
			at = t
		}
	}
	return at, !at.IsZero()
}

// fail records a failed attempt of a popped pod. It returns nil if the pod is no longer in the
// queue.
func (q *queue) fail(p *PodInfo, now time.Time) *entry {
	e := q.entries[p.Key]
	if !q.holds(p) || e.where != nil {
		return nil
	}
	wait := q.firstBackoff
	for n := 1; n < e.attempts && wait < q.maxBackoff; n++ {
		wait *= 2
	}
	e.since, e.until = now, now.Add(min(wait, q.maxBackoff))
	return e
}

// park puts back a popped pod that fits no node, with its class and the names of what has refused it.
func (q *queue) park(p *PodInfo, unfit *FitError, class string, refusers []string, now time.Time) {
	e := q.fail(p, now)
	if e == nil {
		return
	}
	e.refusers = refusers
	if e.renewed {
		q.tryNext(e)
		q.push(&q.backoff, e, podUpdated)
		return
	}
	g := q.endProbe(e)
	var before *FitError
	if g != nil {
		before = g.unfit
	}
	q.push(&q.parked, e, attemptFailed)
	q.join(e, class, unfit)
	switch {
	case g == nil:
	case g.class != class: // it was refused for a reason of its own, or other pods end for it
		q.try(g, g.event, now)
	case !sameReasons(before, unfit):
		q.wakeOthers(e, now)
	}
}

// retry puts back a popped pod, to be tried again after its backoff. refusers are the names of what has
// refused it.
func (q *queue) retry(p *PodInfo, refusers []string, now time.Time) {
	if e := q.fail(p, now); e != nil {
		e.refusers = refusers
		q.push(&q.backoff, e, attemptFailed)
		q.tryNext(e)
	}
}

// wakeNow makes a parked pod ready, after its backoff.
func (q *queue) wakeNow(p *PodInfo, now time.Time) {
	if e := q.entries[p.Key]; q.holds(p) && e.where == &q.parked {
		q.wake(e, activated, now)
	}
}

// wake moves a parked entry to backoff or ready.
func (q *queue) wake(e *entry, event string, now time.Time) {
	heap.Remove(&q.parked, e.index)
	q.leave(e)
	if e.until.After(now) {
		q.push(&q.backoff, e, event)
	} else {
		q.push(&q.ready, e, event)
	}
}

// entries is a heap.
type entries struct {
	name string
	list []*entry
	less func(a, b *entry) bool
}

func (h *entries) Len() int           { return len(h.list) }
func (h *entries) Less(i, j int) bool { return h.less(h.list[i], h.list[j]) }
func (h *entries) Swap(i, j int) {
	h.list[i], h.list[j] = h.list[j], h.list[i]
	h.list[i].index, h.list[j].index = i, j
}

// Push implements heap.Interface; see queue.push.
func (h *entries) Push(x any) {
	e := x.(*entry)
	e.where, e.index = h, len(h.list)
	h.list = append(h.list, e)
}

// Pop implements heap.Interface.
func (h *entries) Pop() any {
	last := len(h.list) - 1
	e := h.list[last]
	h.list[last] = nil
	h.list = h.list[:last]
	e.where = nil
	return e
}
