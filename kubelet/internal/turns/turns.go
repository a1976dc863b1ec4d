// Package turns limits how many pods a container runtime starts at the same time.
//
// When many pods start at once, they wait for the processors that start their containers. Started
// all together, all of them are ready at the end. Started a few at a time and in order, half of them
// are ready after half of the time, and the last one is ready no later.
//
// A turn is held during a call of the runtime. Pods that have begun go before those that have not,
// so that a few pods go through all their calls. Cleaning up comes last, but not later than [Latest] after it
// could have come. A turn that lasts longer than the patience ends by
// itself: a call that hangs delays other pods by no more than that.
package turns

import (
	"container/list"
	"context"
	"sync"
	"time"
)

// Rank is the order in which turns are given.
type Rank int

// The ranks. Begun is for pods that have had a turn before, and Fresh for pods that have not. Idle is for cleaning
// up after pods.
const (
	Begun Rank = iota
	Fresh
	Idle
	ranks
)

// Latest is how long an Idle turn waits at most for turns of the other ranks.
const Latest = 5 * time.Second

// Turns gives out turns. Its methods are safe for concurrent use.
type Turns struct {
	patience time.Duration

	mu sync.Mutex
	// mu guards the fields below.
	free    int
	waiting [ranks]list.List // of *waiter
}

// waiter waits for a turn.
type waiter struct {
	granted chan struct{} // closed when the turn is given
	since   time.Time
}

// New returns turns of which the given number is taken at the same time, each for patience at most.
func New(number int, patience time.Duration) *Turns {
	return &Turns{free: number, patience: patience}
}

// Take waits for a turn, and returns a function that ends it. It fails only if ctx ends.
func (t *Turns) Take(ctx context.Context, rank Rank) (end func(), err error) {
	queue := &t.waiting[rank]
	t.mu.Lock()
	if t.free > 0 {
		t.free--
		t.mu.Unlock()
		return t.hold(), nil
	}
	w := &waiter{granted: make(chan struct{}), since: time.Now()}
	place := queue.PushBack(w)
	t.mu.Unlock()
	select {
	case <-w.granted:
		return t.hold(), nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	select {
	case <-w.granted: // at the same time
		t.give()
	default:
		queue.Remove(place)
	}
	t.mu.Unlock()
	return nil, ctx.Err()
}

// hold begins a turn and returns a function that ends it.
func (t *Turns) hold() func() {
	give := sync.OnceFunc(func() {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.give()
	})
	timer := time.AfterFunc(t.patience, give)
	return func() {
		timer.Stop()
		give()
	}
}

// give passes a turn that has ended on to the next waiter. It is called with t.mu held.
func (t *Turns) give() {
	order := []Rank{Begun, Fresh, Idle}
	if last := t.waiting[Idle].Front(); last != nil && time.Since(last.Value.(*waiter).since) >= Latest {
		order = []Rank{Idle}
	}
	for _, rank := range order {
		if first := t.waiting[rank].Front(); first != nil {
			close(t.waiting[rank].Remove(first).(*waiter).granted)
			return
		}
	}
	t.free++
}
