package informer_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/planekit/planekit/informer"
)

// calls records the calls of a handler in short form.
type calls struct {
	mu    sync.Mutex
	calls []string
	hold  chan struct{} // if not nil, each call waits for it
}

func (c *calls) handle(old, new *object) {
	if c.hold != nil {
		<-c.hold
	}
	call := ""
	switch {
	case old == nil:
		call = "+" + new.String()
	case new == nil:
		call = "-" + old.String()
	default:
		call = "=" + new.String()
	}
	c.mu.Lock()
	c.calls = append(c.calls, call)
	c.mu.Unlock()
}

func (c *calls) take() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := strings.Join(c.calls, ", ")
	c.calls = nil
	return calls
}

func expect(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: the handler received %q, want %q", what, got, want)
	}
}

// TestInitialAndSynced subscribes handlers before Run, and later.
func TestInitialAndSynced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.put("a")
		inf := newInformer(t, s)
		early := &calls{hold: make(chan struct{})}
		h := inf.Subscribe(early.handle)
		stop := start(t, inf)
		synctest.Wait()
		select {
		case <-h.CaughtUp:
			t.Error("caught up during the first call")
		default:
		}
		<-inf.Synced()
		close(early.hold)
		<-h.CaughtUp
		s.put("b")
		synctest.Wait()
		expect(t, "early", early.take(), "+a@1, +b@2")

		late := &calls{}
		inf.Subscribe(late.handle)
		synctest.Wait()
		slices.Sort(late.calls)
		expect(t, "late", late.take(), "+a@1, +b@2")
		s.remove("a")
		synctest.Wait()
		expect(t, "late", late.take(), "-a@1")
		stop()
		h.Stop()
	})
}

// TestSyncedWithNothing sends an empty first list.
func TestSyncedWithNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		list := make(chan struct{})
		inf := newInformer(t, sourceFunc(func(ctx context.Context, _ string, sink informer.Sink[*object]) error {
			<-list
			sink.Replace("1", nil)
			<-ctx.Done()
			return ctx.Err()
		}))
		h := inf.Subscribe(func(_, _ *object) { t.Error("called") })
		stop := start(t, inf)
		synctest.Wait()
		select {
		case <-h.CaughtUp:
			t.Error("caught up before the list")
		default:
		}
		close(list)
		<-h.CaughtUp
		stop()
	})
}
