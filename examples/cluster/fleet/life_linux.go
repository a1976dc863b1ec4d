package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/planekit/planekit/examples/cluster/machine"
)

// Delays before a machine that has ended is started again. One that was on for longer than restartReset starts over
// with the first.
const (
	restartFirst = time.Second
	restartMost  = 30 * time.Second
	restartReset = time.Minute
	// removeTimeout bounds the removal of what a machine leaves, and leaveTimeout the end of the program in a machine
	// that is left.
	removeTimeout = 20 * time.Second
	leaveTimeout  = 20 * time.Second
)

// run runs all machines until ctx is done, and then stops them at once, or leaves them. A hangup starts those that are off.
func (f *Fleet) run(ctx context.Context, leaves func() bool) error {
	wake := make(chan os.Signal, 1)
	signal.Notify(wake, syscall.SIGHUP)
	defer signal.Stop(wake)
	var group sync.WaitGroup
	group.Go(func() {
		for {
			select {
			case <-wake:
				f.wakeUp()
			case <-ctx.Done():
				return
			}
		}
	})
	failures := make([]error, len(f.all))
	for i, m := range f.all {
		group.Go(func() { failures[i] = f.runOne(ctx, m, leaves) })
	}
	group.Wait()
	return errors.Join(failures...)
}

// runOne keeps a machine on until ctx is done. It begins with the one that an earlier run has left, if there is one.
func (f *Fleet) runOne(ctx context.Context, m *nodeMachine, leaves func() bool) error {
	on, err := m.Adopt()
	if err != nil {
		return err
	}
	for delay := restartFirst; ; delay = min(2*delay, restartMost) {
		since := time.Now()
		if !on {
			// What is left of an earlier run has no owner: its processes ended with the process that started them.
			if err := m.clean(); err != nil {
				return err
			}
			if err := m.Start(); err != nil {
				return errors.Join(err, m.clean())
			}
		}
		on = false
		select {
		case <-ctx.Done():
			if leaves() {
				return f.leave(m)
			}
			return errors.Join(f.stop(m), m.clean())
		case <-m.Ended():
		}
		f.config.Log.Error(fmt.Errorf("it ended: %w; its log ends with: %s", m.Failure(), lastLine(m.Log())), "a machine is off", "node", m.node.Name, "log", m.Log(), "restart", f.config.Restart)
		if err := m.clean(); err != nil {
			return err
		}
		if time.Since(since) > restartReset {
			delay = restartFirst
		}
		var after <-chan time.Time
		if f.config.Restart {
			after = time.After(delay)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-after:
		case <-f.woken():
		}
	}
}

// wakeUp starts the machines that are off.
func (f *Fleet) wakeUp() {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.wake != nil {
		close(f.wake)
		f.wake = nil
	}
}

// woken returns a channel that the next wakeUp closes.
func (f *Fleet) woken() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.wake == nil {
		f.wake = make(chan struct{})
	}
	return f.wake
}

// leave ends the program of a machine, and kills it after a while or once nothing is to get a grace any more.
func (f *Fleet) leave(m *nodeMachine) error {
	ctx, cancel := context.WithTimeout(context.Background(), leaveTimeout)
	defer cancel()
	ctx, done := f.withGrace(ctx)
	defer done()
	return m.Leave(ctx)
}

// stop stops a machine, and kills it once nothing is to get a grace any more.
func (f *Fleet) stop(m *nodeMachine) error {
	ctx, done := f.withGrace(context.Background())
	defer done()
	return m.Stop(ctx)
}

// withGrace returns a context that also ends once nothing is to get a grace any more.
func (f *Fleet) withGrace(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	go func() {
		select {
		case <-f.config.StopNow:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// clean removes what a machine that is off has left in the kernel.
func (m *nodeMachine) clean() error {
	ctx, cancel := context.WithTimeout(context.Background(), removeTimeout)
	defer cancel()
	return machine.RemoveCgroups(ctx, m.node.Cgroup)
}

// waitingFor names the machines that are on.
func (f *Fleet) waitingFor() string {
	var names []string
	for _, m := range f.all {
		select {
		case <-m.Ended():
		default:
			names = append(names, m.node.Name)
		}
	}
	return strings.Join(names, ", ")
}

// lastLine returns the last line of a file.
func lastLine(file string) string {
	data, err := os.ReadFile(file)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(data)), "\n")
	return lines[len(lines)-1]
}
