package nodes

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/planekit/planekit/kubelet/shutdown"
	"github.com/planekit/planekit/plane/stack"
)

// slowEnder takes a second.
type slowEnder struct {
	err             error
	ended, canceled int
}

func (e *slowEnder) Shutdown(context.Context) error {
	time.Sleep(time.Second)
	e.ended++
	return e.err
}

func (e *slowEnder) CancelShutdown() { e.canceled++ }

// TestShutdowns: all nodes end their pods at the same time, and one that fails hinders no other.
func TestShutdowns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		a, b := &slowEnder{err: broken}, &slowEnder{}
		var e Shutdowns
		e.Add(a)
		e.Add(b)
		began := time.Now()
		if err := e.shutdown(t.Context()); !errors.Is(err, broken) || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		e.cancel()
		for _, one := range []*slowEnder{a, b} {
			if one.ended != 1 || one.canceled != 1 {
				t.Errorf("a member was ended %d times and canceled %d times, want once each", one.ended, one.canceled)
			}
		}
	})
}

// TestWatchShutdown: without logind it is said once that pods are not ended. If pods have no time, logind is not asked.
func TestWatchShutdown(t *testing.T) {
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path="+filepath.Join(t.TempDir(), "none"))
	for period, want := range map[time.Duration]bool{0: false, 30 * time.Second: true} {
		lines := make(chan string, 9)
		s := stack.New()
		var all Shutdowns
		if err := all.Watch(s, shutdown.Config{GracePeriod: period}, funcr.New(func(_, line string) { lines <- line }, funcr.Options{})); err != nil {
			t.Fatal(err)
		}
		if want {
			if line := <-lines; !strings.Contains(line, "pods are not ended before the machine shuts down: logind is not available") {
				t.Error(line)
			}
		}
		if err := s.Stop(); err != nil {
			t.Errorf("Stop() with the grace period %v: %v", period, err)
		}
		if len(lines) > 0 {
			t.Errorf("with the grace period %v the log has %q too, want nothing more", period, <-lines)
		}
	}
}
