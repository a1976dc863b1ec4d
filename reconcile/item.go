package reconcile

import (
	"math"
	"time"
)

// item is what the queue knows of a key. It is dropped when it says nothing.
type item[K comparable] struct {
	key K
	// prev and next are in the list that the item is in: a line of the ready, or
	// the working.
	prev, next *item[K]

	// waiting is set from Add until a worker is given the key; also while it is
	// with a worker who must do it once more.
	waiting bool
	working bool
	// failures counts retries since the last Forget.
	failures int32
	// delay is its place in later, counted from one; zero is none.
	delay int
	// priority is that of the wait, held that at which it was handed out.
	priority, held int

	tenant string
	// since is when it began to wait, started when to be worked on.
	since, started time.Duration
}

// idle tells that there is nothing to remember of it.
func (it *item[K]) idle() bool {
	return !it.waiting && !it.working && it.failures == 0 && it.delay == 0
}

// fail counts a failure, up to what there is room for.
func (it *item[K]) fail() {
	if it.failures < math.MaxInt32 {
		it.failures++
	}
}

// list is of items, linked through themselves.
type list[K comparable] struct{ first, last *item[K] }

func (l *list[K]) push(it *item[K]) {
	it.prev = l.last
	if l.last == nil {
		l.first = it
	} else {
		l.last.next = it
	}
	l.last = it
}

// pop takes out the first. There must be one.
func (l *list[K]) pop() *item[K] {
	it := l.first
	l.first = it.next
	if it.next == nil {
		l.last = nil
	} else {
		it.next.prev, it.next = nil, nil
	}
	return it
}

func (l *list[K]) remove(it *item[K]) {
	if it.prev == nil {
		l.first = it.next
	} else {
		it.prev.next = it.next
	}
	if it.next == nil {
		l.last = it.prev
	} else {
		it.next.prev = it.prev
	}
	it.prev, it.next = nil, nil
}

// tenantOf is asked before the lock is taken, for it is not the queue's code.
func (q *Queue[K]) tenantOf(key K) string {
	if q.tenant == nil {
		return ""
	}
	return q.tenant(key)
}

// now is the time since base.
func (q *Queue[K]) now() time.Duration { return time.Since(q.base) }
