package reconcile

import (
	"context"
	"sync"
	"time"
)

// Backoff says how long a key waits after a failure. The first wait is Min
// and each further one twice as long, up to Max. Zero is 5 ms and 1000 s.
type Backoff struct{ Min, Max time.Duration }

// The waits of Kubernetes controllers (client-go's default rate limiter).
const (
	defaultMin = 5 * time.Millisecond
	defaultMax = 1000 * time.Second
)

func (b Backoff) after(failures int) time.Duration {
	low, high := b.Min, b.Max
	if low <= 0 {
		low = defaultMin
	}
	if high <= 0 {
		high = max(defaultMax, low)
	}
	wait := low
	for ; failures > 0 && wait < high; failures-- {
		wait *= 2
	}
	return min(wait, high)
}

// A Queue hands out keys that need work. A key is with at most one worker at
// a time, and waits at most once. All methods are safe for concurrent use.
type Queue[K comparable] struct {
	backoff Backoff

	// mu guards the fields below.
	mu    sync.Mutex
	items map[K]*item[K]
	ready ring[*item[K]]
	later delays[K]
	idle  []*worker[K] // in the order they came
	free  []*item[K]
	// timer rings when the first of later is due.
	timer *time.Timer
}

// item is what the queue knows of a key. It is dropped when it says nothing.
type item[K comparable] struct {
	key K
	// waiting is set from Add until a worker is given the key; also while it is
	// with a worker who must do it once more.
	waiting bool
	working bool
	// failures counts calls of Retry since the last Forget.
	failures int
	// due is when the key is to be added; valid while place is not -1.
	due   time.Time
	place int // in later
}

// worker is a blocked Get.
type worker[K comparable] struct{ given chan K }

// NewQueue returns an empty queue. The zero Backoff is that of Kubernetes.
func NewQueue[K comparable](b Backoff) *Queue[K] {
	return &Queue[K]{backoff: b, items: make(map[K]*item[K])}
}

// Add marks key as needing work.
func (q *Queue[K]) Add(key K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.add(q.item(key))
}

// AddAfter adds key after wait, or earlier if an earlier call said so.
func (q *Queue[K]) AddAfter(key K, wait time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.addAfter(q.item(key), wait)
}

// Retry adds key after the time that its failures call for, and counts one
// more.
func (q *Queue[K]) Retry(key K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	it := q.item(key)
	wait := q.backoff.after(it.failures)
	it.failures++
	q.addAfter(it, wait)
}

// Forget sets the failures of key to none.
func (q *Queue[K]) Forget(key K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if it, ok := q.items[key]; ok {
		it.failures = 0
		q.drop(it)
	}
}

// Len returns how many keys wait for a worker now.
func (q *Queue[K]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ready.len()
}

// Get waits for a key. Whoever gets one must call Done with it. The only error
// is that of ctx.
func (q *Queue[K]) Get(ctx context.Context) (K, error) {
	var none K
	if err := ctx.Err(); err != nil {
		return none, err
	}
	q.mu.Lock()
	if q.ready.len() > 0 {
		it := q.ready.pop()
		it.waiting, it.working = false, true
		q.mu.Unlock()
		return it.key, nil
	}
	w := &worker[K]{make(chan K, 1)} // room for the one key that it is given
	q.idle = append(q.idle, w)
	q.mu.Unlock()
	select {
	case key := <-w.given:
		return key, nil
	case <-ctx.Done():
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	for i, other := range q.idle {
		if other == w {
			q.idle = append(q.idle[:i], q.idle[i+1:]...)
			return none, ctx.Err()
		}
	}
	return <-w.given, nil // given in the meantime: it is ours to do
}

// Done says that the work on key, got from Get, has ended.
func (q *Queue[K]) Done(key K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	it, ok := q.items[key]
	if !ok || !it.working {
		return
	}
	it.working = false
	if it.waiting {
		it.waiting = false
		q.add(it)
		return
	}
	q.drop(it)
}

func (q *Queue[K]) item(key K) *item[K] {
	if it, ok := q.items[key]; ok {
		return it
	}
	it := &item[K]{}
	if n := len(q.free); n > 0 {
		it, q.free = q.free[n-1], q.free[:n-1]
	}
	*it = item[K]{key: key, place: -1}
	q.items[key] = it
	return it
}

// maxFree bounds the items kept for reuse after a burst.
const maxFree = 1024

func (q *Queue[K]) drop(it *item[K]) {
	if it.waiting || it.working || it.failures > 0 || it.place >= 0 {
		return
	}
	delete(q.items, it.key)
	if len(q.free) < maxFree {
		*it = item[K]{}
		q.free = append(q.free, it)
	}
}

func (q *Queue[K]) add(it *item[K]) {
	switch {
	case it.waiting:
	case it.working:
		it.waiting = true
	case len(q.idle) > 0:
		w := q.idle[0]
		q.idle = append(q.idle[:0], q.idle[1:]...)
		it.working = true
		w.given <- it.key
	default:
		it.waiting = true
		q.ready.push(it)
	}
}

func (q *Queue[K]) addAfter(it *item[K], wait time.Duration) {
	if wait <= 0 {
		q.add(it)
		return
	}
	due := time.Now().Add(wait)
	if it.place >= 0 && !due.Before(it.due) {
		return
	}
	it.due = due
	q.later.set(it)
	if q.later[0] != it {
		return
	}
	if q.timer == nil {
		q.timer = time.AfterFunc(wait, q.ring)
	} else {
		q.timer.Reset(wait)
	}
}

// ring adds what is due and sets the timer for what is next.
func (q *Queue[K]) ring() {
	q.mu.Lock()
	defer q.mu.Unlock()
	now := time.Now()
	for len(q.later) > 0 {
		first := q.later[0]
		if wait := first.due.Sub(now); wait > 0 {
			q.timer.Reset(wait)
			return
		}
		q.later.pop()
		q.add(first)
	}
}
