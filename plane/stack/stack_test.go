package stack

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
)

func TestStackStopsFromTheTop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var stopped []string
		s := New()
		for _, name := range []string{"storage", "server", "kubelet"} {
			s.Start(name, func(ctx context.Context) error {
				<-ctx.Done()
				stopped = append(stopped, name) // stop waits for each, so no two append at once
				return nil
			})
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := s.Run(ctx); err != nil {
			t.Fatal(err)
		}
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
		if want := []string{"kubelet", "server", "storage"}; !slices.Equal(stopped, want) {
			t.Errorf("stopped %v, want %v", stopped, want)
		}
	})
}

func TestStackFailsWithItsFirstFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := New()
		s.Start("server", func(ctx context.Context) error { <-ctx.Done(); return errors.New("late") })
		s.Start("storage", func(context.Context) error { return errors.New("disk is gone") })
		err := s.Run(t.Context())
		if err == nil || err.Error() != "storage: disk is gone" {
			t.Errorf("run: %v", err)
		}
		if err := s.Stop(); err == nil || !strings.Contains(err.Error(), "stop server: late") {
			t.Errorf("stop: %v", err)
		}
	})
}

// TestStackTellsWhatItWaitsFor: after two seconds, and only when it changes.
func TestStackTellsWhatItWaitsFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var lines []string // guarded by mu
		log := funcr.New(func(_, line string) {
			mu.Lock()
			defer mu.Unlock()
			lines = append(lines, line)
		}, funcr.Options{})
		said := func() []string {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(lines)
		}
		s := New()
		s.Start("storage", func(ctx context.Context) error { <-ctx.Done(); time.Sleep(10 * time.Second); return nil })
		waits := "node-1: default/slow"
		p := s.Start("nodes", func(ctx context.Context) error { <-ctx.Done(); time.Sleep(10 * time.Second); return nil })
		p.WaitingFor = func() string { return waits }
		done, ended := make(chan struct{}), make(chan struct{})
		go func() { defer close(ended); s.Report(log, done) }()
		begin := time.Now()
		go func() {
			time.Sleep(reportAfter - time.Millisecond)
			if said := said(); len(said) != 0 {
				t.Errorf("said %q after %v", said, time.Since(begin))
			}
		}()
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
		close(done)
		<-ended
		if said := said(); len(said) != 2 || !strings.Contains(said[0], `"waitingFor"="node-1: default/slow"`) || !strings.Contains(said[1], `"waitingFor"="storage"`) {
			t.Errorf("said %q", said)
		}
	})
}

// TestStackStopsAtOnce: what only this process has is left behind, what outlasts
// it is waited for.
func TestStackStopsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		now := make(chan struct{})
		s := New()
		s.Now = now
		stuck, removed := make(chan struct{}), false
		s.Start("server", func(context.Context) error { <-stuck; return nil })
		s.Start("containerd", func(ctx context.Context) error {
			<-ctx.Done()
			<-now
			time.Sleep(2 * abandonAfter)
			removed = true
			return nil
		}).Bounded = true
		time.AfterFunc(time.Minute, func() { close(now) })
		begin := time.Now()
		if err := s.Stop(); err != nil {
			t.Fatal(err)
		}
		if took, want := time.Since(begin), time.Minute+3*abandonAfter; took != want || !removed {
			t.Errorf("stopped after %v, want %v; all removed: %v", took, want, removed)
		}
		close(stuck)
	})
}

// TestMainStopsWhatItStarted covers the ways in which Main ends. In each, all parts have stopped.
func TestMainStopsWhatItStarted(t *testing.T) {
	wrong := errors.New("disk is gone")
	for _, c := range []struct {
		name string
		// start is called with a part running.
		start func(ctx context.Context, s *Stack) error
		want  string // of the error; empty for none
	}{
		{"ended", func(context.Context, *Stack) error { return nil }, ""},
		{"ended before it was ready", func(ctx context.Context, s *Stack) error { return s.Await(ctx, nil) }, ""},
		{"not started", func(context.Context, *Stack) error { return wrong }, "disk is gone"},
		{"failed while another part starts", func(ctx context.Context, s *Stack) error {
			s.Start("storage", func(context.Context) error { return wrong })
			return s.Await(ctx, nil)
		}, "storage: disk is gone"},
		{"failed later", func(_ context.Context, s *Stack) error {
			s.Start("storage", func(context.Context) error { time.Sleep(time.Second); return wrong })
			return nil
		}, "storage: disk is gone"},
		{"failed in stopping", func(_ context.Context, s *Stack) error {
			s.OnStop("file", func() error { return wrong })
			return nil
		}, "stop file: disk is gone"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				s, stopped := New(), false
				err := s.Main(ctx, func(ctx context.Context) error {
					s.Start("server", func(ctx context.Context) error { <-ctx.Done(); stopped = true; return nil })
					return c.start(ctx, s)
				})
				if got := message(err); got != c.want {
					t.Errorf("error %q, want %q", got, c.want)
				}
				if !stopped {
					t.Error("a part still runs")
				}
			})
		})
	}
}

func message(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}
