package informer_test

import (
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/informer"
)

// TestLateHandler subscribes during many changes; the follower fails the test if a change is
// repeated or missing.
func TestLateHandler(t *testing.T) {
	s := newServer()
	inf := newInformer(t, s)
	stop := start(t, inf)
	<-inf.Synced()
	var writers sync.WaitGroup
	writers.Go(func() {
		for i := range 3000 {
			s.put(strconv.Itoa(i % 300))
		}
	})
	var followers []*follower
	for range 20 {
		followers = append(followers, follow(t, inf))
	}
	writers.Wait()
	if err := inf.WaitFor(t.Context(), "3000"); err != nil {
		t.Fatal(err)
	}
	late := make(chan struct{})
	inf.Subscribe(func(_, new *object) {
		if new.revision == 3000 {
			close(late)
		}
	})
	<-late
	for i, f := range followers {
		for done := false; !done; {
			f.mu.Lock()
			o := f.state["299"]
			done = o != nil && o.revision == 3000
			f.mu.Unlock()
		}
		f.check(fmt.Sprintf("handler %d", i), s)
	}
	stop()
}

func TestSlowHandlerHoldsUpNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		inf := newInformer(t, s)
		release := make(chan struct{})
		var slow, fast atomic.Int32
		inf.Subscribe(func(_, _ *object) { <-release; slow.Add(1) })
		inf.Subscribe(func(_, _ *object) { fast.Add(1) })
		stop := start(t, inf)
		for i := range 500 {
			s.put(strconv.Itoa(i))
		}
		synctest.Wait()
		if fast.Load() != 500 || slow.Load() != 0 || inf.Snapshot().Len() != 500 {
			t.Errorf("fast %d, slow %d, view %d", fast.Load(), slow.Load(), inf.Snapshot().Len())
		}
		close(release)
		synctest.Wait()
		if slow.Load() != 500 {
			t.Errorf("the slow handler got %d of 500", slow.Load())
		}
		stop()
	})
}

func TestStopWaitsForTheCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		s.put("a")
		inf := newInformer(t, s)
		var finished, calls int
		stopHandler := inf.Subscribe(func(_, _ *object) {
			calls++
			time.Sleep(time.Second)
			finished++
		}).Stop
		stop := start(t, inf)
		synctest.Wait()
		stopHandler()
		if calls != 1 || finished != 1 {
			t.Errorf("after stop: %d calls, %d finished", calls, finished)
		}
		s.put("a")
		synctest.Wait()
		if calls != 1 {
			t.Error("called after stop")
		}
		stopHandler()
		stop()
		stopHandler()
	})
}

// TestStopBeforeRun stops a handler before its goroutine has run.
func TestStopBeforeRun(t *testing.T) {
	s := newServer()
	s.put("a")
	inf := newInformer(t, s)
	stopHandler := inf.Subscribe(func(_, _ *object) { t.Error("called") }).Stop
	stopHandler()
	stop := start(t, inf)
	<-inf.Synced()
	stopHandler()
	stop()
	inf.Subscribe(func(_, _ *object) { t.Error("called after Run") }).Stop()
}

// TestReaders uses everything at once, for the race detector.
func TestReaders(t *testing.T) {
	s := newServer()
	inf := newInformer(t, s)
	stop := start(t, inf)
	var all sync.WaitGroup
	var ended atomic.Bool
	for range 3 {
		all.Go(func() {
			for !ended.Load() {
				view := inf.Snapshot()
				count := 0
				for o := range view.All() {
					if got, ok := view.Get(o.key); !ok || got != o {
						t.Errorf("torn view: %v and %v", o, got)
						return
					}
					count++
				}
				if count != view.Len() {
					t.Errorf("%d objects, Len %d", count, view.Len())
				}
				inf.Subscribe(func(_, _ *object) {}).Stop()
			}
		})
	}
	for i := range 2000 {
		if i%3 == 2 {
			s.remove(strconv.Itoa(i % 50))
		} else {
			s.put(strconv.Itoa(i % 100))
		}
	}
	if err := inf.WaitFor(t.Context(), strconv.Itoa(s.revision)); err != nil {
		t.Error(err)
	}
	ended.Store(true)
	all.Wait()
	stop()
}

func follow(t *testing.T, inf *informer.Informer[*object]) *follower {
	f := &follower{t: t, inf: inf, state: map[string]*object{}, newest: map[string]int{}}
	inf.Subscribe(f.handle)
	return f
}
