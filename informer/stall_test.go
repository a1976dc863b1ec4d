package informer_test

import (
	"context"
	"strconv"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/informer"
)

// TestLateHandlerStallsNobody has handlers of each kind come late and not return
// from their first call: the copy goes on, and so do a handler that was there
// before and one that comes later still.
func TestLateHandlerStallsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		for i := range 200 {
			s.put(strconv.Itoa(i))
		}
		inf := newInformer(t, s)
		early := follow(t, inf, informer.Options{})
		stop := start(t, inf)
		<-inf.Synced()
		release := make(chan struct{})
		var late []*informer.Handle[*object]
		var calls atomic.Int32
		for _, delivery := range deliveries {
			late = append(late, inf.Follow(func(informer.Event[*object]) {
				<-release
				calls.Add(1)
			}, informer.Options{Delivery: delivery}))
		}
		synctest.Wait() // each is in its first call
		for i := range 100 {
			s.put(strconv.Itoa(i))
			s.remove(strconv.Itoa(100 + i))
		}
		synctest.Wait()
		if got := inf.Snapshot().Revision(); got != "400" {
			t.Errorf("the copy is at %s, want 400", got)
		}
		early.check("the early handler", s)
		later := follow(t, inf, informer.Options{})
		synctest.Wait()
		later.check("the last handler", s)
		if calls.Load() != 0 {
			t.Errorf("%d calls returned", calls.Load())
		}
		close(release)
		for _, h := range late {
			<-h.Synced()
		}
		synctest.Wait()
		stop()
	})
}

// TestRunWaitsForCalls ends Run while a handler of each kind is in a call.
func TestRunWaitsForCalls(t *testing.T) {
	for name, delivery := range deliveries {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer()
				s.put("a")
				s.put("b")
				inf := newInformer(t, s)
				var began, ended atomic.Int32
				h := inf.Follow(func(informer.Event[*object]) {
					began.Add(1)
					time.Sleep(time.Minute)
					ended.Add(1)
				}, informer.Options{Delivery: delivery})
				stop := start(t, inf)
				synctest.Wait()
				stop()
				if began.Load() != 1 || ended.Load() != 1 {
					t.Errorf("when Run had returned, %d calls had begun and %d ended", began.Load(), ended.Load())
				}
				<-h.Done()
				select {
				case <-h.Synced():
					t.Error("synced, with one of two objects told of")
				default:
				}
			})
		})
	}
}

// blocking is an informer whose writer stands in Transform until release is
// closed, in the midst of a change that follows the first list.
func blocking(t *testing.T, source informer.Source[*object]) (inf *informer.Informer[*object], blocked, release chan struct{}) {
	t.Helper()
	blocked, release = make(chan struct{}), make(chan struct{})
	inf, err := informer.New(informer.Config[*object]{
		Source: source, Key: func(o *object) string { return o.key }, Revision: func(o *object) string { return strconv.Itoa(o.revision) },
		Transform: func(o *object) *object {
			if o.revision == 2 {
				close(blocked)
				<-release
			}
			return o
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return inf, blocked, release
}

// TestReadersNeverWait reads while the writer is in the midst of a change.
func TestReadersNeverWait(t *testing.T) {
	s := newServer()
	s.put("a")
	inf, blocked, release := blocking(t, s)
	groups := informer.IndexBy(inf, func(o *object) int { return o.group })
	stop := start(t, inf)
	<-inf.Synced()
	s.put("a")
	<-blocked
	read := make(chan struct{})
	go func() {
		defer close(read)
		view := inf.Snapshot()
		a, ok := inf.Get("a")
		if !ok || a.revision != 1 || view.Revision() != "1" || view.Len() != 1 || groups.Count(view, 1) != 1 {
			t.Errorf("a is %v in a view of %s", a, view.Revision())
		}
		for o := range groups.Get(1) {
			if o != a {
				t.Errorf("the index has %v", o)
			}
		}
		if err := inf.WaitFor(t.Context(), "1"); err != nil {
			t.Error(err)
		}
	}()
	select {
	case <-read:
	case <-time.After(time.Minute):
		t.Error("a reader waits for the writer")
	}
	close(release)
	<-read
	stop()
}

// TestReadingAllocatesNothing: what is read is what is stored.
func TestReadingAllocatesNothing(t *testing.T) {
	s := newServer()
	for i := range 1000 {
		s.put(strconv.Itoa(i))
	}
	inf := newInformer(t, s)
	groups := informer.IndexBy(inf, func(o *object) int { return o.group })
	stop := start(t, inf)
	<-inf.Synced()
	found := 0
	if n := testing.AllocsPerRun(100, func() {
		view := inf.Snapshot()
		if _, ok := view.Get("500"); ok {
			found++
		}
		for range groups.In(view, 3) {
			found++
		}
		for range view.All() {
			found++
		}
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
	if found != 101*(1+200+1000) {
		t.Errorf("found %d", found)
	}
	stop()
}

// TestSourceWaitsForTheWriter: what is not stored yet is bounded.
func TestSourceWaitsForTheWriter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const changes = 20_000
		var said atomic.Int32
		inf, blocked, release := blocking(t, sourceFunc(func(ctx context.Context, _ string, sink informer.Sink[*object]) error {
			sink.Replace("1", []*object{{key: "a", revision: 1}})
			for i := range changes {
				sink.Put(strconv.Itoa(i+2), &object{key: "a", revision: i + 2})
				said.Add(1)
			}
			<-ctx.Done()
			return ctx.Err()
		}))
		stop := start(t, inf)
		<-blocked
		synctest.Wait()
		if n := said.Load(); n > 10_000 {
			t.Errorf("%d changes wait", n)
		}
		close(release)
		if err := inf.WaitFor(t.Context(), strconv.Itoa(changes+1)); err != nil {
			t.Error(err)
		}
		stop()
	})
}
