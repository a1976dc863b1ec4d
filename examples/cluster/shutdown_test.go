package main

import (
	"context"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
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

// TestEnds: all nodes end their pods at the same time, and one that fails hinders no other.
func TestEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		broken := errors.New("broken")
		a, b := &slowEnder{err: broken}, &slowEnder{}
		var e ends
		e.add(a)
		e.add(b)
		began := time.Now()
		if err := e.shutdown(t.Context()); !errors.Is(err, broken) || time.Since(began) != time.Second {
			t.Errorf("%v after %v", err, time.Since(began))
		}
		e.cancel()
		for _, one := range []*slowEnder{a, b} {
			if one.ended != 1 || one.canceled != 1 {
				t.Errorf("%+v", one)
			}
		}
	})
}

// TestWatchShutdown: without logind the cluster says once that the fields for a shutdown have no effect, and goes
// on. Without these fields it does not ask.
func TestWatchShutdown(t *testing.T) {
	t.Setenv("DBUS_SYSTEM_BUS_ADDRESS", "unix:path="+filepath.Join(t.TempDir(), "none"))
	for fields, want := range map[string]bool{"maxPods: 3": false, "shutdownGracePeriod: 30s": true} {
		o, err := parse("--kubelet-config", kubeletFile(t, fields))
		if err != nil {
			t.Fatal(err)
		}
		lines := make(chan string, 9)
		c := &cluster{options: o, log: funcr.New(func(_, line string) { lines <- line }, funcr.Options{})}
		s := stack.New()
		if err := c.watchShutdown(t.Context(), nil, s); err != nil {
			t.Fatal(err)
		}
		if want {
			if line := <-lines; !strings.Contains(line, "pods are not ended before the machine shuts down: logind is not available") {
				t.Error(line)
			}
		}
		if err := s.Stop(); err != nil {
			t.Errorf("%s: %v", fields, err)
		}
		if len(lines) > 0 {
			t.Errorf("%s: %s", fields, <-lines)
		}
	}
}
