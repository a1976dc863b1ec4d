// Package logind lets a node end its pods before its machine shuts down. It holds a delay inhibitor
// lock of systemd-logind, which announces a shutdown over D-Bus and then waits until the lock is released.
//
//	watcher, err := logind.New(logind.Config{Delay: 30 * time.Second, Shutdown: endPods})
//	if err != nil { ... }
//	err = watcher.Run(ctx)
//
// The functions of Config are usually Shutdown and CancelShutdown of a kubelet.
// logind waits no longer than its InhibitDelayMaxSec. If that is less than Config.Delay, a file in
// /etc/systemd/logind.conf.d raises it. Only announcements of the owner of logind's name on the bus count.
//
// Run returns an error only if it cannot begin, for example because the machine has no logind. If the
// connection to the bus is lost, it connects again, every second, and keeps the lock until then.
// https://systemd.io/INHIBITOR_LOCKS/
package logind

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/go-logr/logr"
)

// DropIns is logind's directory of configuration files.
const DropIns = "/etc/systemd/logind.conf.d"

// Config describes what a shutdown does. Delay and Shutdown must be set.
type Config struct {
	// Delay is how long Shutdown may take.
	Delay time.Duration
	// Shutdown is called when the machine is about to shut down. The machine waits until it returns.
	// Its context is that of Run. Errors are logged.
	Shutdown func(context.Context) error
	// Canceled is called when a shutdown does not take place after all; nil means nothing is. It is never
	// called at the same time as Shutdown.
	Canceled func()
	// Bus is the address of a D-Bus bus, such as unix:path=/run/dbus/system_bus_socket; empty means the
	// system bus.
	Bus string
	// DropIns is the directory where InhibitDelayMaxSec is raised; empty means [DropIns].
	DropIns string
	// Log is silent when zero.
	Log logr.Logger
}

// Watcher waits for the machine to shut down.
type Watcher struct {
	config Config
	// poll is the first delay after which logind is asked whether it has read its configuration; it doubles.
	// again is the delay between two attempts to connect.
	poll, again time.Duration
	// lock delays the shutdown; nil while none is held. Only Run uses it.
	lock *os.File
}

// New returns a watcher. It connects to nothing before Run.
func New(c Config) (*Watcher, error) {
	switch {
	case c.Shutdown == nil:
		return nil, errors.New("logind: Shutdown is missing")
	case c.Delay <= 0:
		return nil, errors.New("logind: Delay is not positive")
	case c.DropIns == "":
		c.DropIns = DropIns
	case !filepath.IsAbs(c.DropIns):
		return nil, errors.New("logind: DropIns is not an absolute path")
	}
	return &Watcher{config: c, poll: 100 * time.Millisecond, again: time.Second}, nil
}

// Run waits for shutdowns until ctx is done. It returns an error at once if logind cannot be reached, or does
// not wait as long as needed.
func (w *Watcher) Run(ctx context.Context) error {
	defer w.release()
	s, err := w.open(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return nil
		}
		return err
	}
	for {
		w.watch(ctx, s)
		s.close()
		if ctx.Err() != nil {
			return nil
		}
		w.config.Log.Info("connection to logind lost: connecting again")
		if s = w.reopen(ctx); s == nil {
			return nil
		}
	}
}

// Watch is Run for a program that goes on without logind: if Run cannot begin, it logs that once and returns
// when ctx is done.
func (w *Watcher) Watch(ctx context.Context) error {
	if err := w.Run(ctx); err != nil {
		w.config.Log.Info("pods are not ended before the machine shuts down: logind is not available", "reason", err.Error())
		<-ctx.Done()
	}
	return nil
}

// open connects to logind, makes sure that it waits long enough, and takes the lock.
func (w *Watcher) open(ctx context.Context) (_ *session, err error) {
	s, err := connect(ctx, w.config.Bus)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			s.close()
		}
	}()
	if err := w.raise(ctx, s); err != nil {
		return nil, err
	}
	// Signals that come before the lock is held are read after it.
	if err := s.subscribe(ctx); err != nil {
		return nil, err
	}
	return s, w.acquire(ctx, s)
}

// reopen opens a session again until it succeeds; nil if ctx is done before. It logs the first failure.
func (w *Watcher) reopen(ctx context.Context) *session {
	timer := time.NewTimer(w.again)
	defer timer.Stop()
	for logged := false; ; {
		select {
		case <-ctx.Done():
			return nil
		case <-timer.C:
		}
		s, err := w.open(ctx)
		if err == nil {
			return s
		}
		if !logged && ctx.Err() == nil {
			logged = true
			w.config.Log.Error(err, "watch shutdowns", "again", w.again)
		}
		timer.Reset(w.again)
	}
}

// watch acts on the announcements of a session until it or ctx ends, or until no lock can be taken.
func (w *Watcher) watch(ctx context.Context, s *session) {
	for {
		begins, ok := s.next(ctx)
		switch {
		case !ok:
			return
		case begins:
			w.config.Log.Info("the machine shuts down: ending pods")
			if err := w.config.Shutdown(ctx); err != nil && ctx.Err() == nil {
				w.config.Log.Error(err, "end pods before the machine shuts down")
			}
			w.release()
		default:
			w.config.Log.Info("the machine does not shut down after all")
			if w.config.Canceled != nil {
				w.config.Canceled()
			}
			if err := w.acquire(ctx, s); err != nil {
				w.config.Log.Error(err, "delay the next shutdown")
				return // with the next session
			}
		}
	}
}

// acquire takes a lock, in place of the one that may be held.
func (w *Watcher) acquire(ctx context.Context, s *session) error {
	lock, err := s.inhibit(ctx)
	if err != nil {
		return err
	}
	w.release()
	w.lock = lock
	return nil
}

func (w *Watcher) release() {
	if w.lock != nil {
		w.lock.Close()
		w.lock = nil
	}
}
