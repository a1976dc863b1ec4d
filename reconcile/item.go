package reconcile

import (
	"math"
	"time"
)

// item is the state of one key. The queue drops it when it is idle.
type item[K comparable] struct {
	key K
	// prev and next are the neighbours in the list that contains the item: a line of ready keys, or
	// the working keys.
	prev, next *item[K]

	// waiting is true from Add until a worker gets the key. If the key is added while it is in
	// progress, both waiting and working are true.
	waiting bool
	working bool
	// failures counts retries since the last Forget.
	failures int32
	// delay is the position in later, counted from one; zero means none.
	delay int
	// priority is the current priority while waiting, held the priority at which a worker got the
	// key.
	priority, held int

	tenant string
	// since is the time at which the key began to wait, started the time at which a worker got it.
	since, started time.Duration
}

// idle reports whether the item holds no state.
func (it *item[K]) idle() bool {
	return !it.waiting && !it.working && it.failures == 0 && it.delay == 0
}

// fail counts a failure and saturates.
func (it *item[K]) fail() {
	if it.failures < math.MaxInt32 {
		it.failures++
	}
}

// list is a doubly linked list of items.
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

// pop removes and returns the first item. There must be one.
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

// tenantOf returns the tenant of key. It is called without the lock, because it calls the user's
// code.
func (q *Queue[K]) tenantOf(key K) string {
	if q.tenant == nil {
		return ""
	}
	return q.tenant(key)
}

// now returns the time since base.
func (q *Queue[K]) now() time.Duration { return time.Since(q.base) }
