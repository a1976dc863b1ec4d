//go:build linux

package overlaytest

import (
	"context"
	"errors"
	"sync"
)

// An Agent is what connects one machine, such as an overlay.
type Agent interface {
	Run(ctx context.Context) error
	Ready() <-chan struct{}
	MTU() int
}

// Start runs an agent and waits until it is ready; then it sets the MTU of the machine's pod, unless m
// is nil. The returned function ends the agent and waits for it; it may be called again. The end of the
// test calls it too.
func (l *Lab) Start(m *Machine, a Agent) (stop func()) {
	l.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(l.Context()))
	done := make(chan error, 1) // room for the one answer
	go func() { done <- a.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			l.Error(err)
		}
	})
	l.Cleanup(stop)
	l.Eventually("start the agent", func() error {
		select {
		case <-a.Ready():
			return nil
		default:
			return errors.New("it is not ready")
		}
	})
	if m != nil {
		l.must(m.SetPodMTU(a.MTU()))
	}
	return stop
}
