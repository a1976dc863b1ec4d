package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// stack runs the parts of the cluster: started one on top of the other, stopped
// from the top down, so that each part has what it stands on until it is gone.
type stack struct {
	parts  []*part
	failed chan error
}

type part struct {
	name   string
	cancel context.CancelFunc
	done   chan struct{}
	err    error
}

func newStack() *stack { return &stack{failed: make(chan error, 1)} }

// start runs a part in a goroutine of its own until stop. A part that ends
// before it was stopped fails the stack.
func (s *stack) start(name string, run func(context.Context) error) {
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

// stop ends all parts, the last started first, and returns what went wrong.
func (s *stack) stop() error {
	var failed error
	for _, p := range slices.Backward(s.parts) {
		p.cancel()
		<-p.done
		failed = errors.Join(failed, p.err)
	}
	s.parts = nil
	return failed
}
