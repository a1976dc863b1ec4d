package reconcile

import (
	"hash/maphash"
	"time"
)

// item is what the queue knows of a key. It is dropped when it says nothing.
type item[K comparable] struct {
	key    K
	hash   uint64
	tenant string

	// chain is the next in the same place of the table.
	chain *item[K]
	// prev and next are in the list that the item is in: a line of the ready, or
	// the working.
	prev, next *item[K]
	// line is the one it stands in, nil for none.
	line *line[K]

	// waiting is set from Add until a worker is given the key; also while it is
	// with a worker who must do it once more.
	waiting bool
	working bool
	// priority is that of the wait, held that at which it was handed out.
	priority, held int
	// failures counts retries since the last Forget.
	failures int
	// due is when the key is to be added, with laterPriority; valid while place is
	// not -1.
	due           time.Duration
	place         int // in later
	laterPriority int
	// since is when it began to wait, started when to be worked on.
	since, started time.Duration
}

// list is of items, linked through themselves.
type list[K comparable] struct{ first, last *item[K] }

func (l *list[K]) push(it *item[K]) {
	it.prev, it.next = l.last, nil
	if l.last == nil {
		l.first = it
	} else {
		l.last.next = it
	}
	l.last = it
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

// about is what must be known of a key before the lock is taken.
func (q *Queue[K]) about(key K) (hash uint64, tenant string) {
	if q.tenant != nil {
		tenant = q.tenant(key)
	}
	return maphash.Comparable(q.seed, key), tenant
}

// now is the time since base.
func (q *Queue[K]) now() time.Duration { return time.Since(q.base) }

// item returns the one of key, made if need be.
func (q *Queue[K]) item(key K, hash uint64, tenant string) *item[K] {
	if it := q.items.get(key, hash); it != nil {
		return it
	}
	it := q.items.spare()
	it.key, it.hash, it.tenant, it.place = key, hash, tenant, -1
	q.items.put(it)
	return it
}

// drop lets go of it if there is nothing to remember.
func (q *Queue[K]) drop(it *item[K]) {
	if !it.waiting && !it.working && it.failures == 0 && it.place < 0 {
		q.items.remove(it)
	}
}
