package informer_test

import (
	"context"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/informer"
	"github.com/planekit/planekit/localcache"
)

// TestLateHandlerStallsNothing subscribes handlers that do not return from their first call: the
// cache continues, and so do an earlier handler and a later one.
func TestLateHandlerStallsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		for i := range 200 {
			s.put(strconv.Itoa(i))
		}
		inf := newInformer(t, s)
		early := follow(t, inf)
		stop := start(t, inf)
		<-inf.Synced()
		release := make(chan struct{})
		var late []localcache.Subscription
		var calls atomic.Int32
		for range 3 {
			late = append(late, inf.Subscribe(func(_, _ *object) {
				<-release
				calls.Add(1)
			}))
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
		later := follow(t, inf)
		synctest.Wait()
		later.check("the last handler", s)
		if calls.Load() != 0 {
			t.Errorf("%d calls returned", calls.Load())
		}
		close(release)
		for _, h := range late {
			<-h.CaughtUp
		}
		synctest.Wait()
		stop()
	})
}

// TestRunWaitsForCalls ends Run while a handler is in a call.
func TestRunWaitsForCalls(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.put("a")
		s.put("b")
		inf := newInformer(t, s)
		var began, ended atomic.Int32
		h := inf.Subscribe(func(_, _ *object) {
			began.Add(1)
			time.Sleep(time.Minute)
			ended.Add(1)
		})
		stop := start(t, inf)
		synctest.Wait()
		stop()
		if began.Load() != 1 || ended.Load() != 1 {
			t.Errorf("when Run had returned, %d calls had begun and %d ended", began.Load(), ended.Load())
		}
		h.Stop()
		select {
		case <-h.CaughtUp:
			t.Error("caught up after one of two objects")
		default:
		}
	})
}

// blocking returns an informer whose writer waits in Key until release is closed, in the middle of
// a change after the first list.
func blocking(t *testing.T, source informer.Source[*object]) (inf *informer.Informer[*object], blocked, release chan struct{}) {
	t.Helper()
	blocked, release = make(chan struct{}), make(chan struct{})
	var once sync.Once
	inf, err := informer.New(informer.Config[*object]{
		Source: source, Revision: func(o *object) string { return strconv.Itoa(o.revision) },
		Key: func(o *object) string {
			if o.revision == 2 {
				once.Do(func() {
					close(blocked)
					<-release
				})
			}
			return o.key
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return inf, blocked, release
}

// TestReadersNeverWait reads while the writer is in the middle of a change.
func TestReadersNeverWait(t *testing.T) {
	s := newServer()
	s.put("a")
	inf, blocked, release := blocking(t, s)
	groups := informer.NewIndex(inf, byGroup)
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

// TestReadingAllocatesNothing: reads return stored objects without copies.
func TestReadingAllocatesNothing(t *testing.T) {
	s := newServer()
	for i := range 1000 {
		s.put(strconv.Itoa(i))
	}
	inf := newInformer(t, s)
	groups := informer.NewIndex(inf, byGroup)
	stop := start(t, inf)
	<-inf.Synced()
	found := 0
	if n := testing.AllocsPerRun(100, func() {
		if _, ok := inf.Get("500"); ok {
			found++
		}
		for range groups.Get(3) {
			found++
		}
		for range inf.All() {
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

// TestSourceWaitsForTheWriter: the number of changes that are not stored yet is limited.
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
