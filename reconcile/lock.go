package reconcile

import (
	"math"
	"runtime"
	"sync"
	"sync/atomic"
)

// latch is a lock that is held for tens of nanoseconds. What it guards has to come
// from the cache of who had it before, which takes hundreds. So who finds it taken
// keeps away from it for a while, in which the other does tens of calls in its own
// cache, and for longer each time. Parking costs microseconds and comes last; a
// sync.Mutex would from then on be handed from one to the next, each of whom has to
// be woken first. Where nobody waits each call is one atomic instruction, inlined.
type latch struct {
	state atomic.Uint32
	// mu guards the parked, who are woken one by one.
	mu     sync.Mutex
	parked *sync.Cond
}

// The states of a latch. Who was parked takes it as awaited, for others may be still.
const (
	free    = iota
	taken   // nobody is parked
	awaited // somebody may be parked
)

const (
	firstPause = 1 << 9 // steps of rest, of some 7 nanoseconds
	lastPause  = 1 << 13
	knocks     = 4 // after each rest, for who has the lock also lets go of it often
	yields     = 100
)

func (l *latch) Lock() {
	if !l.TryLock() {
		l.wait()
	}
}

func (l *latch) TryLock() bool { return l.state.CompareAndSwap(free, taken) }

func (l *latch) Unlock() {
	if l.state.Swap(free) == awaited {
		l.wake()
	}
}

func (l *latch) wait() {
	if runtime.GOMAXPROCS(0) > 1 {
		var sum float64
		for steps := firstPause; steps <= lastPause; steps *= 2 {
			rest(&sum, steps)
			for range knocks {
				if l.look() {
					return
				}
			}
		}
	}
	for range yields {
		runtime.Gosched()
		if l.look() {
			return
		}
	}
	l.park()
}

// look is TryLock that takes nothing from the cache of who has the latch.
func (l *latch) look() bool { return l.state.Load() == free && l.TryLock() }

// park waits to be woken and takes the latch.
func (l *latch) park() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.parked == nil {
		l.parked = sync.NewCond(&l.mu)
	}
	for l.state.Swap(awaited) != free {
		l.parked.Wait()
	}
}

// wake has one of the parked look again.
func (l *latch) wake() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.parked.Signal()
}

// rest takes time and touches no memory but what is its caller's own.
//
//go:noinline
func rest(sum *float64, steps int) {
	x := *sum
	for range steps {
		x = math.Sqrt(x + 2)
	}
	*sum = x
}
