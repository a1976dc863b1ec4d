package reconcile

import "time"

// QueueHooks receive the events of a Queue for metrics. The goroutine that called the queue calls
// them without a lock, so they must be safe for concurrent use. Nil hooks have no cost; without any
// hook, the queue does not read the clock. Stats returns the current counts.
type QueueHooks struct {
	// Added is called when a key is added that was not waiting.
	Added func()
	// Retried is called when a key will be added later or again.
	Retried func()
	// Got is called when a worker gets a key, with the time that the key has waited.
	Got func(waited time.Duration)
	// Finished is called when a key is done, with the time in progress.
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

// QueueStats is the state of a queue at one moment.
type QueueStats struct {
	// Depth counts the keys that wait for a worker.
	Depth int
	// Delayed counts the keys that will be added later.
	Delayed int
	// Working counts the keys in progress.
	Working int
	// Unfinished is the total time that the keys in progress have taken so far, and Longest the
	// maximum: large values mean that workers are stuck. Both are zero in a queue without Hooks.
	Unfinished, Longest time.Duration
}

// Stats returns the current state of the queue. Its cost is proportional to the number of keys in
// progress.
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
