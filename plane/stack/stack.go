// Package stack runs the parts of a program, each on top of those before it: they
// are started in order and stopped in reverse, so that each part has what it stands
// on until it has ended.
//
//	s := stack.New()
//	return s.Main(ctx, func(ctx context.Context) error {
//		s.Start("storage", store.Run)
//		if err := s.Await(ctx, store.Ready()); err != nil {
//			return err
//		}
//		s.Start("server", server.Run)
//		return nil
//	})
//
// A part runs in a goroutine of its own, with a context that ends only when Stop
// comes to it: the end of the program's own context stops nothing by itself. A part
// that ends before it was stopped fails the stack; Await and Run return the first
// such failure, and the caller then stops the rest.
//
// Start, Await, Run, Stop and Main are for one goroutine at a time. The package restarts
// nothing and knows no dependencies but the order of the calls.
package stack

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
)

// A Stack is a list of running parts. Make it with New.
type Stack struct {
	// Now, when closed, makes Stop wait only for the parts that are Bounded, and give
	// any other two seconds. Nil is never. Set it before the first part.
	Now <-chan struct{}
	// Leave, when closed before Stop, asks parts to leave what outlives the process as it is, such as containers and
	// their network, for the next process. Nil is never. Set it before the first part.
	Leave <-chan struct{}

	parts  []*Part
	failed chan error
	// stopping is the part that Stop waits for; nil when it waits for none.
	stopping atomic.Pointer[Part]
}

// A Part is one part of a Stack. Its fields must be set before Stop is called.
type Part struct {
	// Bounded is set if the part itself observes the stack's Now. Stop abandons any other part
	// then, so nothing of it may outlast the process.
	Bounded bool
	// WaitingFor, when not nil, says in more detail what Stop waits for.
	WaitingFor func() string

	name   string
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

const (
	// reportAfter is how long Stop takes before Report says what it waits for, and
	// reportEvery the least time between two such messages.
	reportAfter = 2 * time.Second
	reportEvery = time.Second
	// abandonAfter is how long a part may take once it is to stop at once.
	abandonAfter = 2 * time.Second
)

// New returns an empty stack.
func New() *Stack { return &Stack{failed: make(chan error, 1)} }

// Start runs a part in a goroutine of its own until Stop. A part that ends before
// it was stopped fails the stack.
func (s *Stack) Start(name string, run func(context.Context) error) *Part {
	// Not a child of any request to end: Stop cancels the parts in order.
	ctx, cancel := context.WithCancel(context.Background())
	p := &Part{name: name, cancel: cancel, done: make(chan struct{})}
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

// Leaves reports whether parts leave what outlives the process. It may be called by any goroutine.
func (s *Stack) Leaves() bool {
	select {
	case <-s.Leave:
		return true
	default:
		return false
	}
}

// OnStop calls close when the parts above have stopped. Its error is one of Stop.
func (s *Stack) OnStop(name string, close func() error) {
	s.Start(name, func(ctx context.Context) error {
		<-ctx.Done()
		return close()
	})
}

// Await waits until ready is closed, a part fails, or ctx is done.
func (s *Stack) Await(ctx context.Context, ready <-chan struct{}) error {
	select {
	case <-ready:
		return nil
	case err := <-s.failed:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// Run waits until ctx is done, which is not an error, or a part fails.
func (s *Stack) Run(ctx context.Context) error {
	err := s.Await(ctx, nil)
	if errors.Is(err, ctx.Err()) {
		return nil
	}
	return err
}

// Main calls start, which starts the parts, and runs them until ctx is done or one of them fails. All
// have stopped when it returns. It returns why start or a part failed, and what went wrong in stopping.
// It is not an error that ctx is done, even before start has returned.
func (s *Stack) Main(ctx context.Context, start func(context.Context) error) error {
	err := start(ctx)
	if err == nil {
		err = s.Run(ctx)
	}
	if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
		err = nil
	}
	return errors.Join(err, s.Stop())
}

// Stop ends all parts, the last started first, and returns what went wrong. When
// Now is closed, it waits only for the parts that are Bounded.
func (s *Stack) Stop() error {
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

// awaitEnd waits until a part has ended; it reports false if it left it behind.
func (s *Stack) awaitEnd(p *Part) bool {
	if p.Bounded {
		<-p.done
		return true
	}
	select {
	case <-p.done:
		return true
	case <-s.Now:
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

// WaitingFor describes the part that Stop waits for; it is empty when Stop waits for
// none. Any goroutine may call it.
func (s *Stack) WaitingFor() string {
	p := s.stopping.Load()
	switch {
	case p == nil:
		return ""
	case p.WaitingFor != nil:
		return p.WaitingFor()
	}
	return p.name
}

// Report logs what Stop waits for once that takes long, and again when it has
// changed, until done is closed.
func (s *Stack) Report(log logr.Logger, done <-chan struct{}) {
	said := ""
	for next := time.After(reportAfter); ; next = time.After(reportEvery) {
		select {
		case <-done:
			return
		case <-next:
		}
		if text := s.WaitingFor(); text != said && text != "" {
			said = text
			log.Info("stopping; another interrupt stops everything at once", "waitingFor", text)
		}
	}
}
