package localcachetest

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/planekit/planekit/localcache"
)

// synced: Synced is closed with the first full list, which all readers then see.
func synced(w *world) {
	early, end := w.follow(nil)
	defer end()
	w.put("a")
	w.put("b")
	w.settle()
	select {
	case <-w.Cache.Synced():
		w.Errorf("Synced is closed before the first list")
	default:
	}
	w.Sync()
	select {
	case <-w.Cache.Synced():
	case <-time.After(time.Minute):
		w.Fatalf("Synced is not closed after the first list")
	}
	w.checkContent()
	w.settle()
	early.check()
	w.put("c")
	w.settle()
	early.check()
	w.checkContent()
}

// caughtUp: CaughtUp is closed when the handler has returned from the calls that report the first
// list.
func caughtUp(w *world) {
	subscribe := func() (calls *atomic.Int32, s localcache.Subscription) {
		calls = new(atomic.Int32)
		return calls, w.Cache.Subscribe(func(_, _ *Object) {
			time.Sleep(time.Second)
			calls.Add(1)
		})
	}
	await := func(who string, calls *atomic.Int32, s localcache.Subscription) {
		w.within("<-CaughtUp of "+who, func() { <-s.CaughtUp })
		if n := calls.Load(); n != 2 {
			w.Errorf("%s had caught up after %d calls, of 2 objects in the first list", who, n)
		}
	}
	calls, early := subscribe()
	defer early.Stop()
	_, stopped := subscribe()
	stopped.Stop()
	w.put("a")
	w.put("b")
	time.Sleep(time.Minute)
	w.settle()
	select {
	case <-early.CaughtUp:
		w.Errorf("a handler had caught up before the first list")
	default:
	}
	w.Sync()
	await("an early handler", calls, early)
	calls, late := subscribe()
	defer late.Stop()
	await("a late handler", calls, late)
	time.Sleep(time.Minute)
	select {
	case <-stopped.CaughtUp:
		w.Errorf("a handler that was stopped before the first list had caught up")
	default:
	}
}

// shared: all readers of an object get the same pointer.
func shared(w *world) {
	w.Sync()
	w.put("a")
	w.settle()
	one, _ := w.Cache.Get("a")
	again, _ := w.Cache.Get("a")
	if one == nil || one != again {
		w.Errorf("Get returns %p and then %p of %v", one, again, again)
	}
	if none, ok := w.Cache.Get("b"); ok || none != nil {
		w.Errorf("Get returns %v, %t of an absent key", none, ok)
	}
	f, end := w.follow(nil)
	defer end()
	w.settle()
	f.check()
	w.checkContent()
}

// lateSubscriber: a late subscriber receives every existing object once.
func lateSubscriber(w *world) {
	w.Sync()
	for i := range 50 {
		w.put(fmt.Sprint(i % 20))
	}
	w.remove("7")
	w.settle()
	f, end := w.follow(nil)
	defer end()
	w.settle()
	f.check()
	if n := f.count(); n != 19 {
		w.Errorf("a late subscriber was called %d times for 19 objects", n)
	}
	w.remove("8")
	w.put("9")
	w.settle()
	f.check()
}

// order: handlers, some of them slow, receive changes in order.
func order(w *world) {
	w.Sync()
	var followers []*follower
	for i := range 3 {
		f, end := w.follow(func(_, _ *Object) {
			if i > 0 {
				time.Sleep(time.Duration(i) * time.Millisecond)
			}
		})
		defer end()
		followers = append(followers, f)
	}
	for i := range 300 {
		w.change()
		if i%50 == 0 {
			w.settle()
		}
	}
	w.remove("key0")
	w.put("key0")
	time.Sleep(time.Minute)
	w.settle()
	for _, f := range followers {
		f.check()
	}
	w.checkContent()
}

// subscribeWhileWriting: no change is missing or repeated between the existing objects and the
// changes.
func subscribeWhileWriting(w *world) {
	w.Sync()
	var all sync.WaitGroup
	var writing atomic.Bool
	writing.Store(true)
	all.Go(func() {
		for i := range 500 {
			w.change()
			pause(i)
		}
		writing.Store(false)
	})
	for range 4 {
		all.Go(func() {
			last := false
			for i := 0; !last; i++ {
				pause(i)
				last = !writing.Load()
				f, end := w.follow(nil)
				time.Sleep(5 * time.Microsecond)
				if last {
					// Only one goroutine may call settle at a time.
					time.Sleep(time.Minute)
					f.check()
				}
				end()
			}
		})
	}
	all.Wait()
	f, end := w.follow(nil)
	defer end()
	w.settle()
	f.check()
}

// subscribeInHandler: a handler may subscribe another handler.
func subscribeInHandler(w *world) {
	w.Sync()
	w.put("a")
	var mu sync.Mutex
	var inner []*follower
	var ends []func()
	var end func()
	w.within("subscribing in a handler", func() {
		_, end = w.follow(func(_, _ *Object) {
			f, end := w.follow(nil)
			mu.Lock()
			defer mu.Unlock()
			inner, ends = append(inner, f), append(ends, end)
		})
		w.settle()
		for _, change := range []func(){
			func() { w.put("b") }, func() { w.put("a") }, func() { w.remove("b") }, func() { w.put("c") },
		} {
			change()
			w.settle()
		}
	})
	end()
	w.put("d")
	w.settle()
	if len(inner) != 5 {
		w.Errorf("%d handlers were subscribed by another, want 5", len(inner))
	}
	for i, f := range inner {
		f.check()
		ends[i]()
	}
}

// stop: after stop, the handler receives no calls, and other handlers still do.
func stop(w *world) {
	w.Sync()
	w.put("a")
	stopped, end := w.follow(nil)
	other, endOther := w.follow(nil)
	defer endOther()
	w.settle()
	end()
	calls := stopped.count()
	w.put("b")
	w.put("a")
	w.remove("b")
	w.settle()
	end()
	if n := stopped.count(); n != calls {
		w.Errorf("a handler was called %d times after stop", n-calls)
	}
	other.check()
	if n := other.count(); n < 2 {
		w.Errorf("another handler was called %d times", n)
	}
}

// stopWaits: stop waits for the call in progress.
func stopWaits(w *world) {
	w.Sync()
	entered, release := make(chan struct{}), make(chan struct{})
	var calls atomic.Int32
	end := w.Cache.Subscribe(func(_, _ *Object) {
		if calls.Add(1) == 1 {
			close(entered)
			<-release
		}
	}).Stop
	written := make(chan struct{})
	go func() { // a cache may call its handlers from the writing goroutine
		defer close(written)
		w.put("a")
	}()
	w.within("<-entered", func() { <-entered })
	var returned atomic.Bool
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		end()
		returned.Store(true)
	}()
	w.settle()
	if returned.Load() {
		w.Errorf("stop returned during a call")
	}
	close(release)
	w.within("stop", func() { <-ended })
	<-written
	w.put("a")
	w.settle()
	if n := calls.Load(); n != 1 {
		w.Errorf("a handler was called %d times after stop", n-1)
	}
}
