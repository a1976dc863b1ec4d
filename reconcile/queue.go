package reconcile

import (
	"context"
	"maps"
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
	wait := min(low, high)
	for ; failures > 0; failures-- {
		if wait > high/2 {
			return high
		}
		wait *= 2
	}
	return wait
}

// QueueConfig describes a Queue. The zero value is of use.
type QueueConfig[K comparable] struct {
	// Backoff is how long a key waits after a failure.
	Backoff Backoff
	// Tenant names whose key it is. Within a priority tenants are served in turn,
	// one key each, so that nobody waits for all the keys of somebody else. It must
	// give the same answer for the same key. Nil is one tenant.
	Tenant func(K) string
	// Hooks are told what happens in the queue.
	Hooks QueueHooks
}

// AddOptions say how a key is added.
type AddOptions struct {
	// Priority is whose turn it is first: a key waits until none of a higher
	// priority does. A key that waits already has the highest that was asked for.
	Priority int
	// After is how long from now the key is added. Zero is now.
	After time.Duration
	// Retry counts a failure and adds the time that it calls for to After.
	Retry bool
}

// A Queue hands out keys that need work. A key is with at most one worker at
// a time, and waits at most once. All methods are safe for concurrent use.
//
// What it keeps of a key is dropped when the key neither waits nor is worked on
// nor has failed; the memory of a burst goes with it.
type Queue[K comparable] struct {
	backoff Backoff
	tenant  func(K) string
	hooks   QueueHooks
	timed   bool      // there are hooks, who want to know how long things took
	base    time.Time // what times in items count from, by the monotonic clock

	// mu guards the fields below.
	mu    sync.Mutex
	items map[K]*item[K]
	peak  int // the most that items had
	free  []*item[K]
	ready ready[K]
	// busy is how many keys are with a worker, last the one handed out last. They
	// are in working if there are hooks.
	busy    int
	last    *item[K]
	working list[K]
	later   delays[K]
	workers sleepers
	// timer rings when the first of later is due.
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

// AddAfter adds key after wait, or earlier if an earlier call said so.
func (q *Queue[K]) AddAfter(key K, wait time.Duration) { q.AddWith(key, AddOptions{After: wait}) }

// Retry adds key after the time that its failures call for, and counts one
// more.
func (q *Queue[K]) Retry(key K) { q.AddWith(key, AddOptions{Retry: true}) }

// AddWith adds key as o says.
func (q *Queue[K]) AddWith(key K, o AddOptions) {
	added := q.added(key, q.tenantOf(key), o)
	if q.timed {
		q.hooks.added(added)
		if o.Retry || o.After > 0 {
			q.hooks.retried()
		}
	}
}

// Forget sets the failures of key to none.
func (q *Queue[K]) Forget(key K) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if it := q.items[key]; it != nil {
		it.failures = 0
		q.drop(it)
	}
}

// added adds key as o says and returns how many adds that is now. A key that cannot be
// hashed leaves the queue unlocked.
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

// Len returns how many keys wait for a worker now.
func (q *Queue[K]) Len() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.ready.n
}

// Get waits for a key. Whoever gets one must call Done with it. The only error
// is that of ctx.
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

// Done says that the work on key, got from Get, has ended.
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

// outcome is what a worker learned of its key.
type outcome int

const (
	succeeded outcome = iota // its failures are forgotten
	again                    // it is to be added, at no less than the priority it had
)

// next is Done, what follows from the outcome, and Get, under one lock if a key is
// ready.
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

// The functions below are called with mu held.

// await has a key be ready, or returns the error of ctx. It lets go of mu meanwhile.
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

// take hands out the key whose turn it is. There must be one.
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

// release has key be with nobody. It returns nil if it was, and for how long it was
// worked on. The item may be idle then.
func (q *Queue[K]) release(key K) (it *item[K], worked time.Duration) {
	it = q.last // whose worker is often the first to be done
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

// follow does what the outcome calls for and returns how many adds that is.
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

// largeMap is how many keys a map may have had to be kept. A map does not shrink, so one that had
// many more than it has is copied.
const largeMap = 1024

// maxFree bounds the items that are kept for reuse.
const maxFree = 1024

// drop forgets an item about which there is nothing to remember.
func (q *Queue[K]) drop(it *item[K]) {
	if !it.idle() {
		return
	}
	delete(q.items, it.key)
	if len(q.free) < maxFree {
		*it = item[K]{} // others may let go of the key now
		q.free = append(q.free, it)
	}
	if n := len(q.items); q.peak > largeMap && n < q.peak/16 {
		q.items, q.peak = maps.Collect(maps.All(q.items)), n
	}
}

// schedule adds it now or later, and returns how many adds that is now.
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

// add returns 1 if it was not to be done already.
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

// raise gives what waits the priority if it is higher than what it has.
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
	if due < 0 { // beyond what can be counted: 292 years
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

// oneRing is how many keys come due under one hold of the lock, so that nobody
// waits for all of those that fail together.
const oneRing = 256

// ring adds what is due and sets the timer for what is next. It takes mu.
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
