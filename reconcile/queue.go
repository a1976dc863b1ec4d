package reconcile

import (
	"context"
	"maps"
	"sync"
	"time"
)

// Backoff is the delay after failures. The first delay is Min; it doubles up to Max. Zero means 5
// ms and 1000 s.
type Backoff struct{ Min, Max time.Duration }

// The delays of Kubernetes controllers (client-go's default rate limiter).
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
	wait := min(low, high)
	for ; failures > 0; failures-- {
		if wait > high/2 {
			return high
		}
		wait *= 2
	}
	return wait
}

// QueueConfig configures a Queue. The zero value is useful.
type QueueConfig[K comparable] struct {
	// Backoff is the delay of a key after a failure.
	Backoff Backoff
	// Tenant returns the tenant of a key, always the same one. Within a priority, tenants take
	// turns with one key each, so that a key does not wait for all keys of another tenant. Nil
	// means a single tenant.
	Tenant func(K) string
	// Hooks receives the events of the queue.
	Hooks QueueHooks
}

// AddOptions are the options for adding a key.
type AddOptions struct {
	// Priority is the priority of the key: keys of a higher priority come first. A waiting key
	// keeps the highest priority that was requested.
	Priority int
	// After is the delay before the key is added. Zero means now.
	After time.Duration
	// Retry counts a failure and adds its backoff to After.
	Retry bool
}

// A Queue hands out keys that need work. A key is in progress with at most one worker, and waits at
// most once. All methods are safe for concurrent use.
//
// The data of a key is dropped when the key neither waits nor is in progress nor has failed; the
// memory of a burst is freed.
type Queue[K comparable] struct {
	backoff Backoff
	tenant  func(K) string
	hooks   QueueHooks
	timed   bool      // there are hooks, which need durations
	base    time.Time // the origin of times in items, by the monotonic clock

	// mu guards the fields below.
	mu    sync.Mutex
	items map[K]*item[K]
	peak  int // the maximum length of items
	free  []*item[K]
	ready ready[K]
	// busy counts keys in progress; last is the most recently returned key. With hooks, working
	// lists all of them.
	busy    int
	last    *item[K]
	working list[K]
	later   delays[K]
	workers sleepers
	// timer fires when the first key of later is due.
	timer *time.Timer
}

// NewQueue returns an empty queue. The zero Backoff is that of Kubernetes.
func NewQueue[K comparable](b Backoff) *Queue[K] {
	return NewQueueWith(QueueConfig[K]{Backoff: b})
}

// NewQueueWith returns an empty queue with tenants or hooks.
func NewQueueWith[K comparable](c QueueConfig[K]) *Queue[K] {
	return &Queue[K]{
		backoff: c.Backoff, tenant: c.Tenant, hooks: c.Hooks, timed: c.Hooks.any(),
		base: time.Now(), items: map[K]*item[K]{},
		ready: ready[K]{shared: c.Tenant != nil},
	}
}

// Add marks key as needing work.
func (q *Queue[K]) Add(key K) {
	added := q.added(key, q.tenantOf(key), AddOptions{})
	if q.timed {
		q.hooks.added(added)
	}
}

// AddAfter adds key after wait, or earlier if an earlier call requested it.
func (q *Queue[K]) AddAfter(key K, wait time.Duration) { q.AddWith(key, AddOptions{After: wait}) }

// Retry adds key after the backoff for its failures, and counts another failure.
func (q *Queue[K]) Retry(key K) { q.AddWith(key, AddOptions{Retry: true}) }

// AddWith adds key with options.
func (q *Queue[K]) AddWith(key K, o AddOptions) {
	added := q.added(key, q.tenantOf(key), o)
	if q.timed {
		q.hooks.added(added)
		if o.Retry || o.After > 0 {
			q.hooks.retried()
		}
	}
}

// Forget resets the failures of key.
func (q *Queue[K]) Forget(key K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if it := q.items[key]; it != nil {
		it.failures = 0
		q.drop(it)
	}
}

// added adds key and returns the number of keys that became ready. A key that cannot be hashed
// panics with the queue unlocked.
func (q *Queue[K]) added(key K, tenant string, o AddOptions) int {
	q.mu.Lock()
	defer q.mu.Unlock()
	it := q.items[key]
	if it == nil {
		if n := len(q.free); n > 0 {
			it, q.free = q.free[n-1], q.free[:n-1]
		} else {
			it = new(item[K])
		}
		it.key, it.tenant = key, tenant
		q.items[key] = it
		q.peak = max(q.peak, len(q.items))
	}
	return q.schedule(it, o)
}

// Len returns the number of keys that wait for a worker.
func (q *Queue[K]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ready.n
}

// Get waits for a key. The caller must call Done with it. The only error is that of ctx.
func (q *Queue[K]) Get(ctx context.Context) (K, error) {
	var none K
	if err := ctx.Err(); err != nil {
		return none, err
	}
	q.mu.Lock()
	if q.ready.n == 0 {
		if err := q.await(ctx); err != nil {
			q.mu.Unlock()
			return none, err
		}
	}
	it := q.take()
	key, waited := it.key, it.started-it.since
	q.mu.Unlock()
	if q.timed {
		q.hooks.got(waited)
	}
	return key, nil
}

// Done marks key, returned by Get, as no longer in progress.
func (q *Queue[K]) Done(key K) {
	it, worked := q.done(key)
	if q.timed && it != nil {
		q.hooks.finished(worked)
	}
}

func (q *Queue[K]) done(key K) (*item[K], time.Duration) {
	q.mu.Lock()
	defer q.mu.Unlock()
	it, worked := q.release(key)
	if it != nil {
		q.drop(it)
	}
	return it, worked
}

// outcome is the result of the work on a key.
type outcome int

const (
	succeeded outcome = iota // reset its failures
	again                    // add it again, at no less than its priority
)

// next combines Done, the effects of the outcome, and Get; under one lock if a key is ready.
func (q *Queue[K]) next(ctx context.Context, key K, is outcome, o AddOptions) (K, error) {
	stop := ctx.Err() != nil
	q.mu.Lock()
	it, worked := q.release(key)
	added := 0
	if it != nil {
		added = q.follow(it, is, o)
		q.drop(it)
	}
	stop = stop || q.ready.n == 0
	waited := time.Duration(0)
	if !stop {
		it := q.take()
		key, waited = it.key, it.started-it.since
	}
	q.mu.Unlock()
	if q.timed && it != nil {
		q.hooks.finished(worked)
		q.hooks.added(added)
		if is == again {
			q.hooks.retried()
		}
	}
	if stop {
		return q.Get(ctx)
	}
	if q.timed {
		q.hooks.got(waited)
	}
	return key, nil
}

// The callers of the functions below hold mu.

// await waits for a ready key, or returns the error of ctx. It unlocks mu while it waits.
func (q *Queue[K]) await(ctx context.Context) error {
	for q.ready.n == 0 {
		s := q.workers.sleep()
		q.mu.Unlock()
		var ended error
		select {
		case <-s.wake:
		case <-ctx.Done():
			ended = ctx.Err()
		}
		q.mu.Lock()
		q.workers.rise(s)
		if ended != nil {
			q.workers.call(q.ready.n)
			return ended
		}
	}
	return nil
}

// take returns the next key. There must be one.
func (q *Queue[K]) take() *item[K] {
	it := q.ready.pop()
	it.waiting, it.working, it.held = false, true, it.priority
	q.busy++
	q.last = it
	if q.timed {
		it.started = q.now()
		q.working.push(it)
	}
	q.workers.call(q.ready.n)
	return it
}

// release marks key as no longer in progress. It returns nil if it was not, and otherwise the time
// in progress. The item may then be idle.
func (q *Queue[K]) release(key K) (it *item[K], worked time.Duration) {
	it = q.last // usually the first to be done
	if it == nil || !it.working || it.key != key {
		if it = q.items[key]; it == nil || !it.working {
			return nil, 0
		}
	}
	it.working = false
	q.busy--
	if q.timed {
		worked = q.now() - it.started
		q.working.remove(it)
	}
	if it.waiting {
		q.ready.push(it)
		q.workers.call(q.ready.n)
	}
	return it, worked
}

// follow applies the outcome and returns the number of keys that became ready.
func (q *Queue[K]) follow(it *item[K], is outcome, o AddOptions) int {
	if is == succeeded || !o.Retry {
		it.failures = 0
	}
	if is == succeeded {
		return 0
	}
	if o.Priority == 0 {
		o.Priority = it.held
	}
	return q.schedule(it, o)
}

// largeMap is the size above which a map is replaced by a smaller copy once most of its keys are
// gone, because maps do not shrink.
const largeMap = 1024

// maxFree bounds the items kept for reuse.
const maxFree = 1024

// drop removes an item without data.
func (q *Queue[K]) drop(it *item[K]) {
	if !it.idle() {
		return
	}
	delete(q.items, it.key)
	if len(q.free) < maxFree {
		*it = item[K]{} // release the key
		q.free = append(q.free, it)
	}
	if n := len(q.items); q.peak > largeMap && n < q.peak/16 {
		q.items, q.peak = maps.Collect(maps.All(q.items)), n
	}
}

// schedule adds an item now or later, and returns the number of keys that became ready.
func (q *Queue[K]) schedule(it *item[K], o AddOptions) int {
	wait := max(o.After, 0)
	if o.Retry {
		wait += q.backoff.after(int(it.failures))
		it.fail()
	}
	if wait <= 0 {
		return q.add(it, o.Priority)
	}
	q.addAfter(it, wait, o.Priority)
	return 0
}

// add adds an item. It returns 1, or 0 if the item was waiting.
func (q *Queue[K]) add(it *item[K], priority int) int {
	if it.waiting {
		q.raise(it, priority)
		return 0
	}
	it.waiting, it.priority = true, priority
	if q.timed {
		it.since = q.now()
	}
	if !it.working {
		q.ready.push(it)
		q.workers.call(q.ready.n)
	}
	return 1
}

// raise raises the priority of a waiting item.
func (q *Queue[K]) raise(it *item[K], priority int) {
	if priority <= it.priority {
		return
	}
	if !it.working {
		q.ready.remove(it)
	}
	it.priority = priority
	if !it.working {
		q.ready.push(it)
	}
}

func (q *Queue[K]) addAfter(it *item[K], wait time.Duration, priority int) {
	due := q.now() + wait
	if due < 0 { // overflow: 292 years
		due = 1<<63 - 1
	}
	if !q.later.add(it, due, priority) {
		return
	}
	if q.timer == nil {
		q.timer = time.AfterFunc(wait, q.ring)
	} else {
		q.timer.Reset(wait)
	}
}

// oneRing is the maximum number of due keys to add under one lock, so that callers do not wait for
// all keys that failed together.
const oneRing = 256

// ring adds the due keys and sets the timer for the next one. It locks mu.
func (q *Queue[K]) ring() {
	for more := true; more; {
		added := 0
		q.mu.Lock()
		now := q.now()
		for range oneRing {
			if more = len(q.later) > 0; !more {
				break
			}
			if wait := q.later[0].due - now; wait > 0 {
				q.timer.Reset(wait)
				more = false
				break
			}
			first := q.later.pop()
			added += q.add(first.item, first.priority)
		}
		q.mu.Unlock()
		q.hooks.added(added)
	}
}
