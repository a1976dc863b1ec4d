package logind

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// rig is a watcher on a fake logind.
type rig struct {
	*fake
	t        *testing.T
	config   Config
	begun    chan struct{} // a shutdown has begun
	proceed  chan error    // it ends with that error
	canceled chan struct{}
	logs     chan string
}

func newRig(t *testing.T) *rig {
	r := &rig{t: t, fake: newFake(t, ""), begun: make(chan struct{}, 9), proceed: make(chan error), canceled: make(chan struct{}, 9), logs: make(chan string, 100)}
	r.config = Config{
		Delay: 5 * time.Second, Bus: r.address, DropIns: r.dir(),
		Shutdown: func(ctx context.Context) error {
			r.begun <- struct{}{}
			select {
			case err := <-r.proceed:
				return err
			case <-ctx.Done():
				return ctx.Err()
			}
		},
		Canceled: func() { r.canceled <- struct{}{} },
		Log: funcr.New(func(_, line string) {
			select {
			case r.logs <- line:
			default:
			}
		}, funcr.Options{}),
	}
	return r
}

func (r *rig) watcher() *Watcher {
	w, err := New(r.config)
	if err != nil {
		r.t.Fatal(err)
	}
	w.poll, w.again = time.Microsecond, time.Millisecond
	return w
}

// start runs the watcher until the test ends or the function that it returns is called.
func (r *rig) start() (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	w := r.watcher()
	go func() { done <- w.Run(ctx) }()
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		if err := <-done; err != nil {
			r.t.Errorf("Run: %v", err)
		}
	}
	r.t.Cleanup(stop)
	r.await("Inhibit", 1)
	return stop
}

// awaitLog waits for a line of the log.
func (r *rig) awaitLog(text string) {
	for line := range r.logs {
		if strings.Contains(line, text) {
			return
		}
	}
}

// TestShutdown: pods end before the lock is released, and a canceled shutdown takes another lock.
func TestShutdown(t *testing.T) {
	r := newRig(t)
	stop := r.start()
	if got := fmt.Sprintf("%q", r.inhibit); got != `["shutdown" "kubelet" "Kubelet needs time to handle node shutdown" "delay"]` {
		t.Errorf("lock %q", got)
	}
	first := r.newest()
	r.announce(fakeOwner, true)
	<-r.begun
	if err := first.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the lock while pods end: %v", err)
	}
	_ = first.SetReadDeadline(time.Time{})
	r.proceed <- errors.New("one does not end")
	released(t, first)
	r.announce(fakeOwner, false)
	<-r.canceled
	r.await("Inhibit", 2)
	second := r.newest()
	r.announce(fakeOwner, true)
	<-r.begun
	r.proceed <- nil
	released(t, second)
	r.announce(fakeOwner, false)
	<-r.canceled
	r.await("Inhibit", 3)
	third := r.newest()
	stop()
	released(t, third)
	if r.asked["KillUnit"] != 0 {
		t.Error("the configuration was changed")
	}
}

// TestStrangers: signals of other programs on the bus, and such as logind never sends, count for nothing.
func TestStrangers(t *testing.T) {
	r := newRig(t)
	r.start()
	r.announce(":1.66", true)
	r.announce(fakeOwner, "true")
	r.announce(fakeOwner, true, true)
	r.announce(fakeOwner, uint32(1))
	r.announce(":1.66", false)
	r.announce(fakeOwner, false)
	<-r.canceled // the announcements come in order
	if len(r.begun) != 0 || len(r.canceled) != 0 {
		t.Errorf("%d shutdowns, %d more that were canceled", len(r.begun), len(r.canceled))
	}
}

// TestStopWhilePodsEnd: Run does not outlive its context.
func TestStopWhilePodsEnd(t *testing.T) {
	r := newRig(t)
	stop := r.start()
	lock := r.newest()
	r.announce(fakeOwner, true)
	<-r.begun
	stop()
	released(t, lock)
}

// TestReconnect: the lock survives the connection; the next one takes another.
func TestReconnect(t *testing.T) {
	r := newRig(t)
	r.start()
	first := r.newest()
	r.mu.Lock()
	r.refuse["Get"] = true
	r.mu.Unlock()
	r.disconnect()
	r.await("Get", 4)
	r.awaitLog("watch shutdowns")
	if err := first.SetReadDeadline(time.Now().Add(time.Millisecond)); err != nil {
		t.Fatal(err)
	}
	if _, err := first.Read(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the lock while logind is away: %v", err)
	}
	_ = first.SetReadDeadline(time.Time{})
	r.mu.Lock()
	delete(r.refuse, "Get")
	r.mu.Unlock()
	released(t, first)
	r.announce(fakeOwner, true)
	<-r.begun
	r.proceed <- nil
	for line := range r.logs {
		if strings.Contains(line, "watch shutdowns") {
			t.Error("the failure was logged again")
		}
		if strings.Contains(line, "ending pods") {
			break
		}
	}
}

// TestRaise: a delay that is too short is raised, and logind is given time to read it.
func TestRaise(t *testing.T) {
	for _, ignored := range []int{0, 3} {
		r := newRig(t)
		r.config.Delay = 90*time.Second + time.Nanosecond
		r.ignored = ignored
		if err := os.MkdirAll(r.dir(), 0o755); err != nil {
			t.Fatal(err)
		}
		other := filepath.Join(t.TempDir(), "other")
		if err := os.Symlink(other, filepath.Join(r.dir(), dropIn)); err != nil {
			t.Fatal(err)
		}
		stop := r.start()
		if text := r.dropIn(); text != "[Login]\nInhibitDelayMaxSec=91\n" {
			t.Errorf("configuration:\n%s", text)
		}
		if _, err := os.Stat(other); err == nil {
			t.Error("a link was followed")
		}
		if entries, err := os.ReadDir(r.dir()); err != nil || len(entries) != 1 {
			t.Errorf("the directory %s has %v, %v, want one file", r.dir(), entries, err)
		}
		stop()
	}
}

// TestCannotBegin: without a logind that waits long enough, Run ends with an error and holds no lock.
func TestCannotBegin(t *testing.T) {
	for name, test := range map[string]struct {
		spoil func(*rig)
		want  string
	}{
		"no bus":          {func(r *rig) { r.config.Bus += "less" }, "connect to the bus of logind"},
		"no logind":       {func(r *rig) { r.refuse["Get"] = true }, "org.freedesktop.DBus.Properties.Get"},
		"a strange delay": {func(r *rig) { r.delay = "long" }, "InhibitDelayMaxUSec of logind is of type s"},
		"no signals":      {func(r *rig) { r.refuse["AddMatch"] = true }, "subscribe to PrepareForShutdown"},
		"no lock":         {func(r *rig) { r.refuse["Inhibit"] = true }, "org.freedesktop.login1.Manager.Inhibit"},
		"no reload":       {func(r *rig) { r.config.Delay, r.refuse["KillUnit"] = time.Minute, true }, "org.freedesktop.systemd1.Manager.KillUnit"},
		"no effect": {func(r *rig) { r.config.Delay, r.ignored = time.Minute, 1<<30 },
			"InhibitDelayMaxSec of logind is still 5s, less than the 1m0s that pods may take to end"},
		"no directory": {func(r *rig) {
			if err := os.WriteFile(r.dir(), nil, 0o600); err != nil {
				r.t.Fatal(err)
			}
			r.config.Delay = time.Minute
		}, "raise InhibitDelayMaxSec of logind"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			test.spoil(r)
			err := r.watcher().Run(t.Context())
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %s", err, test.want)
			}
			ctx, cancel := context.WithCancel(t.Context())
			watched := make(chan error, 1)
			go func() { watched <- r.watcher().Watch(ctx) }()
			r.awaitLog("pods are not ended before the machine shuts down: logind is not available")
			cancel()
			if err := <-watched; err != nil {
				t.Errorf("Watch: %v", err)
			}
			if len(r.locks) != 0 {
				t.Error("a lock was taken")
			}
		})
	}
}

func TestNew(t *testing.T) {
	shutdown := func(context.Context) error { return nil }
	for want, c := range map[string]Config{
		"Shutdown is missing":             {Delay: 1},
		"Delay is not positive":           {Shutdown: shutdown},
		"DropIns is not an absolute path": {Shutdown: shutdown, Delay: 1, DropIns: "conf.d"},
	} {
		if _, err := New(c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
}

// A node ends its pods when the machine shuts down. Without logind, it says so once.
func Example() {
	var ended atomic.Bool
	watcher, err := New(Config{
		Delay: 30 * time.Second, Bus: "unix:path=/nonexistent/bus", Log: logr.Discard(),
		Shutdown: func(context.Context) error { ended.Store(true); return nil },
	})
	if err != nil {
		panic(err)
	}
	if err := watcher.Run(context.Background()); err != nil {
		fmt.Println("pods do not end before the machine shuts down:", strings.SplitN(err.Error(), ": ", 2)[0])
	}
	// Output: pods do not end before the machine shuts down: connect to the bus of logind
}
