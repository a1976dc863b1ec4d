package containerd

import (
	"context"
	"errors"
	"syscall"
	"time"
)

// Delays before a daemon that has ended is started again. A daemon that ran for
// longer than restartReset starts over with the first.
const (
	restartFirst = 100 * time.Millisecond
	restartMost  = 30 * time.Second
	restartReset = time.Minute
	// lookEvery is how often a daemon is looked at that this process did not start.
	lookEvery = 200 * time.Millisecond
)

// Supervise starts the daemon again, with a growing delay, whenever it has ended,
// and returns when ctx is done. Start must have returned before. The containers
// of a daemon that has ended run on, and the next one takes them over.
func (d *Daemon) Supervise(ctx context.Context) {
	delay, since := restartFirst, time.Now()
	for d.awaitExit(ctx) {
		if time.Since(since) > restartReset {
			delay = restartFirst
		}
		d.config.Log.Error(errors.New("it ended: "+d.lastLog()), "starting containerd again", "pid", d.running.pid, "after", delay)
		if !sleep(ctx, delay) {
			return
		}
		delay, since = min(2*delay, restartMost), time.Now()
		if err := d.start(ctx); err != nil && ctx.Err() == nil {
			d.config.Log.Error(err, "containerd does not start")
		}
	}
}

// awaitExit waits until the daemon has ended; it reports false if ctx was done
// before.
func (d *Daemon) awaitExit(ctx context.Context) bool {
	if d.running.exited != nil {
		select {
		case <-d.running.exited:
			return true
		case <-ctx.Done():
			return false
		}
	}
	for syscall.Kill(d.running.pid, 0) == nil && !zombie(d.running.pid) {
		if !sleep(ctx, lookEvery) {
			return false
		}
	}
	return ctx.Err() == nil
}

// sleep waits; it reports false if ctx was done before.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
