package reconcile

import "runtime"

// The lock is held for tens of nanoseconds, but what it guards has to come from the
// cache of who had it before, which takes hundreds. So who finds it taken keeps away
// from it for a while, in which the other does tens of calls in its own cache, and
// longer each time. Parking costs microseconds, and a sync.Mutex that somebody has
// been parked at for a millisecond is handed from one to the next, each of whom has
// to be woken first; so it comes last.
const (
	firstPause = 1 << 10 // steps of rest, of about a nanosecond
	lastPause  = 1 << 14
	yields     = 100
)

// lock takes mu.
func (q *Queue[K]) lock() {
	if !q.mu.TryLock() {
		q.lockLater()
	}
}

func (q *Queue[K]) lockLater() {
	if runtime.GOMAXPROCS(0) > 1 {
		for steps := firstPause; steps <= lastPause; steps *= 2 {
			rest(steps)
			if q.mu.TryLock() {
				return
			}
		}
	}
	for range yields {
		runtime.Gosched()
		if q.mu.TryLock() {
			return
		}
	}
	q.mu.Lock()
}

// rest takes time and touches no memory.
//
//go:noinline
func rest(steps int) (x uint32) {
	for range steps {
		x = x*1664525 + 1013904223
	}
	return x
}
