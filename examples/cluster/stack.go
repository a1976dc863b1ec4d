package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
)

// stack runs the parts of the cluster: started one on top of the other, stopped
// from the top down, so that each part has what it stands on until it is gone.
type stack struct {
	parts  []*part
	failed chan error
	// now is closed when parts are to stop at once; nil is never.
	now <-chan struct{}
	// stopping is the part that stop waits for; nil when it waits for none.
	stopping atomic.Pointer[part]
}

type part struct {
	name   string
	cancel context.CancelFunc
	done   chan struct{}
	err    error
	// bounded says that the part itself heeds the stack's now. Any other is left
	// behind then: nothing of it outlasts the process.
	bounded bool
	// waitingFor, when not nil, says in more detail what stop waits for.
	waitingFor func() string
}

const (
	// tellAfter is how long a stop takes before it is told what it waits for, and
	// tellEvery the least time between two such messages.
	tellAfter = 2 * time.Second
	tellEvery = time.Second
	// abandonAfter is how long a part may take once it is to stop at once.
	abandonAfter = 2 * time.Second
)

func newStack() *stack { return &stack{failed: make(chan error, 1)} }

// start runs a part in a goroutine of its own until stop. A part that ends
// before it was stopped fails the stack.
func (s *stack) start(name string, run func(context.Context) error) *part {
	// Not a child of any request to end: stop cancels the parts in order.
	ctx, cancel := context.WithCancel(context.Background())
	p := &part{name: name, cancel: cancel, done: make(chan struct{})}
	s.parts = append(s.parts, p)
	go func() {
		defer close(p.done)
		err := run(ctx)
		if ctx.Err() != nil {
			if err != nil && !errors.Is(err, context.Canceled) {
				p.err = fmt.Errorf("stop %s: %w", name, err)
			}
			return
		}
		if err == nil {
			err = errors.New("ended by itself")
		}
		select {
		case s.failed <- fmt.Errorf("%s: %w", name, err):
		default: // only the first failure is the cause
		}
	}()
	return p
}

// closing has close called when the parts above have stopped. Its error fails the
// stop.
func (s *stack) closing(name string, close func() error) {
	s.start(name, func(ctx context.Context) error {
		<-ctx.Done()
		return close()
	})
}

// await waits until ready is closed, a part fails, or ctx is done.
func (s *stack) await(ctx context.Context, ready <-chan struct{}) error {
	select {
	case <-ready:
		return nil
	case err := <-s.failed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// run waits until ctx is done, which is not an error, or a part fails.
func (s *stack) run(ctx context.Context) error {
	err := s.await(ctx, nil)
	if errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// stop ends all parts, the last started first, and returns what went wrong. When
// now is closed, it waits only for the parts that are bounded.
func (s *stack) stop() error {
	var failed error
	for _, p := range slices.Backward(s.parts) {
		s.stopping.Store(p)
		p.cancel()
		if s.awaitEnd(p) {
			failed = errors.Join(failed, p.err)
		}
	}
	s.stopping.Store(nil)
	s.parts = nil
	return failed
}

// awaitEnd waits until a part has ended; it reports false if it was left behind.
func (s *stack) awaitEnd(p *part) bool {
	if p.bounded {
		<-p.done
		return true
	}
	select {
	case <-p.done:
		return true
	case <-s.now:
	}
	patience := time.NewTimer(abandonAfter)
	defer patience.Stop()
	select {
	case <-p.done:
		return true
	case <-patience.C:
		return false
	}
}

// tell says what stop waits for once that takes long, and again when it has
// changed, until done is closed.
func (s *stack) tell(log logr.Logger, done <-chan struct{}) {
	said := ""
	for next := time.After(tellAfter); ; next = time.After(tellEvery) {
		select {
		case <-done:
			return
		case <-next:
		}
		p := s.stopping.Load()
		if p == nil {
			continue
		}
		text := p.name
		if p.waitingFor != nil {
			text = p.waitingFor()
		}
		if text != said && text != "" {
			said = text
			log.Info("stopping; another interrupt stops everything at once", "waitingFor", text)
		}
	}
}
