package informer_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/informer"
)

// told writes down what a handler is told, in short.
type told struct {
	mu    sync.Mutex
	calls []string
	hold  chan struct{} // when not nil, each call waits for it
}

func (c *told) handle(e informer.Event[*object]) {
	if c.hold != nil {
		<-c.hold
	}
	o, what := e.New, map[informer.Kind]string{informer.Added: "+", informer.Changed: "=", informer.Deleted: "-", informer.Resynced: "~"}[e.Kind]
	if e.Kind == informer.Deleted {
		o = e.Old
	}
	call := what + o.String()
	if e.Initial {
		call += " initial"
	}
	if e.Merged {
		call += " merged"
	}
	c.mu.Lock()
	c.calls = append(c.calls, call)
	c.mu.Unlock()
}

func (c *told) take() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	calls := strings.Join(c.calls, ", ")
	c.calls = nil
	return calls
}

func expect(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: told %q, want %q", what, got, want)
	}
}

var deliveries = map[string]informer.Delivery{"lossless": informer.Lossless, "bounded": informer.Bounded, "coalescing": informer.Coalescing}

// TestInitialAndSynced has each kind of handler come before Run, and late.
func TestInitialAndSynced(t *testing.T) {
	for name, delivery := range deliveries {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				s.put("a")
				inf := newInformer(t, s)
				early := &told{hold: make(chan struct{})}
				h := inf.Follow(early.handle, informer.Options{Delivery: delivery})
				stop := start(t, inf)
				synctest.Wait()
				select {
				case <-h.Synced():
					t.Error("synced while the first call is under way")
				default:
				}
				<-inf.Synced()
				close(early.hold)
				<-h.Synced()
				s.put("b")
				synctest.Wait()
				merged := ""
				if delivery == informer.Coalescing {
					merged = " merged"
				}
				expect(t, "early", early.take(), "+a@1 initial, +b@2"+merged)

				late := &told{}
				inf.Follow(late.handle, informer.Options{Delivery: delivery})
				synctest.Wait()
				slices.Sort(late.calls)
				expect(t, "late", late.take(), "+a@1 initial, +b@2 initial")
				s.remove("a")
				synctest.Wait()
				expect(t, "late", late.take(), "-a@1"+merged)
				stop()
				<-h.Done()
			})
		})
	}
}

// TestSyncedWithNothing has an empty first list.
func TestSyncedWithNothing(t *testing.T) {
	for name, delivery := range deliveries {
		synctest.Test(t, func(t *testing.T) {
			list := make(chan struct{})
			inf := newInformer(t, sourceFunc(func(ctx context.Context, _ string, sink informer.Sink[*object]) error {
				<-list
				sink.Replace("1", nil)
				<-ctx.Done()
				return ctx.Err()
			}))
			h := inf.Follow(func(informer.Event[*object]) { t.Error("called") }, informer.Options{Delivery: delivery})
			stop := start(t, inf)
			synctest.Wait()
			select {
			case <-h.Synced():
				t.Errorf("%s: synced before the list", name)
			default:
			}
			close(list)
			<-h.Synced()
			stop()
		})
	}
}

// TestBounded has a handler stall until too much waits for it: it is told of
// the difference. Before and after that it is told of everything.
func TestBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		for _, key := range []string{"changed", "deleted", "replaced", "kept"} {
			s.put(key)
		}
		inf := newInformer(t, s)
		c := &told{}
		h := inf.Follow(c.handle, informer.Options{Delivery: informer.Bounded, Limit: 10})
		stop := start(t, inf)
		<-h.Synced()
		synctest.Wait()
		c.take()

		c.hold = make(chan struct{})
		for range 9 {
			s.put("kept") // one is in the call, eight wait
			synctest.Wait()
		}
		close(c.hold)
		synctest.Wait()
		c.hold = nil
		expect(t, "within the limit", c.take(), "=kept@5, =kept@6, =kept@7, =kept@8, =kept@9, =kept@10, =kept@11, =kept@12, =kept@13")

		c.hold = make(chan struct{})
		s.put("kept") // 14
		synctest.Wait()
		s.put("changed")
		s.remove("deleted")
		s.put("passing")
		for range 20 {
			s.put("changed")
			synctest.Wait()
		}
		s.remove("passing")
		s.remove("replaced")
		s.put("replaced")
		s.put("new")
		synctest.Wait()
		close(c.hold)
		synctest.Wait()
		c.hold = nil
		calls := strings.Split(c.take(), ", ")
		if calls[0] != "=kept@14" {
			t.Errorf("began with %s", calls[0])
		}
		slices.Sort(calls)
		expect(t, "beyond the limit", strings.Join(calls, ", "),
			"+new@41 merged, +replaced@40 merged, -deleted@2 merged, -replaced@3 merged, =changed@37 merged, =kept@14")
		s.put("changed")
		s.put("changed")
		synctest.Wait()
		expect(t, "after", c.take(), "=changed@42, =changed@43")
		stop()
	})
}

// TestCoalescing has a handler that is told of one thing while others happen.
func TestCoalescing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		for _, key := range []string{"changed", "deleted", "replaced", "kept"} {
			s.put(key)
		}
		inf := newInformer(t, s)
		c := &told{}
		h := inf.Follow(c.handle, informer.Options{Delivery: informer.Coalescing})
		stop := start(t, inf)
		<-h.Synced()
		synctest.Wait()
		c.take()
		c.hold = make(chan struct{})
		s.put("kept")
		synctest.Wait()
		for range 100 {
			s.put("changed")
			synctest.Wait()
		}
		s.remove("deleted")
		s.remove("replaced")
		s.put("replaced")
		s.put("passing")
		s.remove("passing")
		synctest.Wait()
		close(c.hold)
		synctest.Wait()
		calls := strings.Split(c.take(), ", ")
		slices.Sort(calls)
		expect(t, "all", strings.Join(calls, ", "),
			"+replaced@108 merged, -deleted@2 merged, -replaced@3 merged, =changed@105 merged, =kept@5 merged")
		stop()
	})
}

// TestResync counts rounds, of which none asks the source.
func TestResync(t *testing.T) {
	for name, delivery := range deliveries {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				s.put("a")
				s.put("b")
				inf := newInformer(t, s)
				c := &told{}
				h := inf.Follow(c.handle, informer.Options{Delivery: delivery, Resync: time.Minute})
				other := &told{}
				inf.Follow(other.handle, informer.Options{Delivery: delivery})
				stop := start(t, inf)
				<-h.Synced()
				synctest.Wait()
				c.take()
				other.take()
				time.Sleep(59 * time.Second)
				synctest.Wait()
				expect(t, "before a minute", c.take(), "")
				time.Sleep(8 * time.Second)
				synctest.Wait()
				slices.Sort(c.calls)
				expect(t, "after a minute", c.take(), "~a@1, ~b@2")
				s.put("a")
				s.remove("b")
				synctest.Wait()
				c.take()
				time.Sleep(time.Hour)
				synctest.Wait()
				rounds := strings.Split(c.take(), ", ")
				if n := len(rounds); n < 54 || n > 60 {
					t.Errorf("%d rounds in an hour", n)
				}
				for _, call := range rounds {
					if call != "~a@3" {
						t.Fatalf("told %s", call)
					}
				}
				other.take()
				time.Sleep(time.Hour)
				synctest.Wait()
				expect(t, "a handler without resync", other.take(), "")
				if s.lists != 1 {
					t.Errorf("%d lists", s.lists)
				}
				stop()
			})
		})
	}
}

// TestStalledHandlersKeepMemoryFlat weighs the heap while handlers that never
// return miss more and more.
func TestStalledHandlersKeepMemoryFlat(t *testing.T) {
	type heavy struct {
		key      string
		revision int
		Ballast  [1000]byte
	}
	const keys = 1000
	for name, options := range map[string]informer.Options{
		"bounded": {Delivery: informer.Bounded, Limit: 100}, "coalescing": {Delivery: informer.Coalescing},
	} {
		t.Run(name, func(t *testing.T) {
			sinks := make(chan informer.Sink[*heavy], 1)
			inf, err := informer.New(informer.Config[*heavy]{
				Key: func(o *heavy) string { return o.key }, Revision: func(o *heavy) string { return strconv.Itoa(o.revision) },
				Source: heavySource[*heavy](func(ctx context.Context, _ string, sink informer.Sink[*heavy]) error {
					sink.Replace("1", []*heavy{{key: "0", revision: 1}})
					sinks <- sink
					<-ctx.Done()
					return ctx.Err()
				}),
			})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			done := make(chan error, 1)
			go func() { done <- inf.Run(ctx) }()
			last := make(chan struct{})
			release, stalled := make(chan struct{}), make(chan struct{}, 1)
			state, final := map[string]int{}, 0
			inf.Follow(func(e informer.Event[*heavy]) {
				select {
				case stalled <- struct{}{}:
				default:
				}
				<-release
				state[e.New.key] = e.New.revision
				// Each key's last revision is among the last ones of all.
				if e.New.revision > 33*keys+1-keys {
					if final++; final == keys {
						close(last)
					}
				}
			}, options)
			sink, revision, view := <-sinks, 1, inf.Snapshot() // whoever keeps a view keeps no more than that
			<-stalled
			weigh := func() uint64 {
				var m runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&m)
				return m.HeapAlloc
			}
			write := func(n int) {
				for range n {
					revision++
					sink.Put(strconv.Itoa(revision), &heavy{key: strconv.Itoa(revision % keys), revision: revision})
				}
				if err := inf.WaitFor(ctx, strconv.Itoa(revision)); err != nil {
					t.Fatal(err)
				}
			}
			write(3 * keys)
			before := weigh()
			write(30 * keys)
			// Whoever stored may hold what it has just stored until it has a processor.
			after, deadline := weigh(), time.Now().Add(time.Minute)
			for after > before+before/4 && time.Now().Before(deadline) {
				runtime.Gosched()
				after = weigh()
			}
			t.Logf("%d bytes, then %d", before, after)
			if after > before+before/4 {
				t.Errorf("grew from %d to %d bytes", before, after)
			}
			close(release)
			<-last
			if len(state) != keys {
				t.Errorf("told of %d objects, want %d", len(state), keys)
			}
			for key, told := range state {
				if o, _ := inf.Get(key); o.revision != told {
					t.Errorf("%s: told of %d, is %d", key, told, o.revision)
				}
			}
			runtime.KeepAlive(view)
			cancel()
			<-done
		})
	}
}

type heavySource[T any] func(ctx context.Context, from string, sink informer.Sink[T]) error

func (f heavySource[T]) Sync(ctx context.Context, from string, sink informer.Sink[T]) error {
	return f(ctx, from, sink)
}

// TestCloseOfABoundedHandler closes one that has been cut off, and one that has
// never run.
func TestCloseOfABoundedHandler(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.put("a")
		inf := newInformer(t, s)
		inf.Follow(func(informer.Event[*object]) {}, informer.Options{Delivery: informer.Bounded}).Close()
		var h *informer.Handle[*object]
		calls := 0
		h = inf.Follow(func(informer.Event[*object]) {
			if calls++; calls == 1 {
				time.Sleep(time.Second)
				h.Close()
			}
		}, informer.Options{Delivery: informer.Bounded, Limit: 1})
		stop := start(t, inf)
		synctest.Wait()
		for i := range 10 {
			s.put(fmt.Sprint(i))
			synctest.Wait()
		}
		<-h.Done()
		if calls != 1 {
			t.Errorf("%d calls", calls)
		}
		stop()
	})
}
