package reconcile

import "time"

// QueueHooks are told what happens in a Queue: what people graph. They are
// called without a lock, by whoever called the queue, and must be safe for
// concurrent use. The nil ones cost nothing; without any the clock is not read.
// How many keys wait or are worked on now is asked for with Stats.
type QueueHooks struct {
	// Added: a key came to need work. An add of a key that is waiting is not told.
	Added func()
	// Retried: a key is to be added later, or again.
	Retried func()
	// Got: a worker was given a key, which had waited.
	Got func(waited time.Duration)
	// Finished: the work on a key has ended.
	Finished func(worked time.Duration)
}

func (h *QueueHooks) any() bool {
	return h.Added != nil || h.Retried != nil || h.Got != nil || h.Finished != nil
}

func (h *QueueHooks) added(n int) {
	if h.Added == nil {
		return
	}
	for range n {
		h.Added()
	}
}

func (h *QueueHooks) retried() {
	if h.Retried != nil {
		h.Retried()
	}
}

func (h *QueueHooks) got(waited time.Duration) {
	if h.Got != nil {
		h.Got(waited)
	}
}

func (h *QueueHooks) finished(worked time.Duration) {
	if h.Finished != nil {
		h.Finished(worked)
	}
}

// QueueStats is a queue at one instant.
type QueueStats struct {
	// Depth is how many keys wait for a worker.
	Depth int
	// Delayed is how many keys are to be added later.
	Delayed int
	// Working is how many keys are with a worker.
	Working int
	// Unfinished is for how long they have been, all together, and Longest for how
	// long the first of them has: large where workers are stuck. They are zero in a
	// queue without Hooks.
	Unfinished, Longest time.Duration
}

// Stats returns how the queue is now. It takes time in proportion to the keys
// that are being worked on.
func (q *Queue[K]) Stats() QueueStats {
	q.mu.Lock()
	defer q.mu.Unlock()
	stats := QueueStats{Depth: q.ready.n, Delayed: len(q.later), Working: q.busy}
	now := q.now()
	for it := q.working.first; it != nil; it = it.next {
		worked := now - it.started
		stats.Unfinished += worked
		stats.Longest = max(stats.Longest, worked)
	}
	return stats
}
