package schedule

import (
	"container/heap"
	"time"
)

// How long pods wait by default. The values are kube-scheduler's.
const (
	firstBackoff = time.Second
	maxBackoff   = 10 * time.Second
	flushAfter   = 5 * time.Minute
)

// queue holds the pods that need a node. Each is ready, in the order of priority and age; backing
// off until a time; or parked until an event. Its methods take the time as an argument.
type queue struct {
	first, most time.Duration // the backoff after the first attempt, and the longest one

	entries map[string]*entry
	ready   entries // by priority and age
	backoff entries // by until
	parked  entries // by since
}

type entry struct {
	pod      *PodInfo
	attempts int
	// since is the time of the last failed attempt.
	since time.Time
	// until is the end of the backoff.
	until time.Time
	// unfit says why a parked pod fits no node.
	unfit *FitError
	where *entries // nil when popped
	index int
}

func newQueue() *queue {
	q := &queue{first: firstBackoff, most: maxBackoff, entries: make(map[string]*entry)}
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
		q.ready.push(e)
		return
	}
	e.pod = p
	if e.where != nil {
		heap.Fix(e.where, e.index)
	}
	if hopeful && e.where == &q.parked {
		q.wake(e, now)
	}
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
}

// pop takes the first ready pod. It stays in the queue until it is removed, or put back by park or
// retry.
func (q *queue) pop(now time.Time) (*PodInfo, bool) {
	q.tick(now)
	if q.ready.Len() == 0 {
		return nil, false
	}
	e := heap.Pop(&q.ready).(*entry)
	e.attempts++
	return e.pod, true
}

// tick makes the pods ready that have waited long enough.
func (q *queue) tick(now time.Time) {
	for q.backoff.Len() > 0 && !q.backoff.list[0].until.After(now) {
		q.ready.push(heap.Pop(&q.backoff).(*entry))
	}
	for q.parked.Len() > 0 && !q.parked.list[0].since.Add(flushAfter).After(now) {
		q.wake(q.parked.list[0], now)
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
	wait := q.first
	for n := 1; n < e.attempts && wait < q.most; n++ {
		wait *= 2
	}
	e.since, e.until = now, now.Add(min(wait, q.most))
	return e
}

// park puts back a popped pod that fits no node.
func (q *queue) park(p *PodInfo, unfit *FitError, now time.Time) {
	if e := q.fail(p, now); e != nil {
		e.unfit = unfit
		q.parked.push(e)
	}
}

// retry puts back a popped pod, to be tried again after its backoff.
func (q *queue) retry(p *PodInfo, now time.Time) {
	if e := q.fail(p, now); e != nil {
		q.backoff.push(e)
	}
}

// wakeIf makes the parked pods ready, after their backoff, for which helped returns true.
func (q *queue) wakeIf(helped func(*FitError) bool, now time.Time) {
	var woken []*entry
	for _, e := range q.parked.list {
		if helped(e.unfit) {
			woken = append(woken, e)
		}
	}
	for _, e := range woken {
		q.wake(e, now)
	}
}

// wakeNow makes a parked pod ready, after its backoff.
func (q *queue) wakeNow(p *PodInfo, now time.Time) {
	if e := q.entries[p.Key]; q.holds(p) && e.where == &q.parked {
		q.wake(e, now)
	}
}

// wake moves a parked entry to backoff or ready.
func (q *queue) wake(e *entry, now time.Time) {
	heap.Remove(&q.parked, e.index)
	e.unfit = nil
	if e.until.After(now) {
		q.backoff.push(e)
	} else {
		q.ready.push(e)
	}
}

// entries is a heap.
type entries struct {
	list []*entry
	less func(a, b *entry) bool
}

func (h *entries) push(e *entry)      { heap.Push(h, e) }
func (h *entries) Len() int           { return len(h.list) }
func (h *entries) Less(i, j int) bool { return h.less(h.list[i], h.list[j]) }
func (h *entries) Swap(i, j int) {
	h.list[i], h.list[j] = h.list[j], h.list[i]
	h.list[i].index, h.list[j].index = i, j
}

// Push implements heap.Interface; see push.
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
