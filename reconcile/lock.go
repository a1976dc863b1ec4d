package reconcile

import (
	"runtime"
	"sync"
)

// latch is a lock that is held for tens of nanoseconds. What it guards has to come
// from the cache of who had it before, which takes hundreds. So who finds it taken
// keeps away from it for a while, in which the other does tens of calls in its own
// cache, and for longer each time. Parking costs microseconds, and a sync.Mutex that
// somebody has been parked at for a millisecond is handed from one to the next, each
// of whom has to be woken first; so it comes last.
type latch struct{ sync.Mutex }

const (
	firstPause = 1 << 10 // steps of rest, of about a nanosecond
	lastPause  = 1 << 14
	knocks     = 4 // after each rest, for who has the lock also lets go of it often
	yields     = 100
)

func (l *latch) Lock() {
	if !l.TryLock() {
		l.wait()
	}
}

func (l *latch) wait() {
	if runtime.GOMAXPROCS(0) > 1 {
		var sum uint32
		for steps := firstPause; steps <= lastPause; steps *= 2 {
			rest(&sum, steps)
			for range knocks {
				if l.TryLock() {
					return
				}
			}
		}
	}
	for range yields {
		runtime.Gosched()
		if l.TryLock() {
			return
		}
	}
	l.Mutex.Lock()
}

// rest takes time and touches no memory but what is its caller's own.
//
//go:noinline
func rest(sum *uint32, steps int) {
	x := *sum
	for range steps {
		x = x*1664525 + 1013904223
	}
	*sum = x
}
