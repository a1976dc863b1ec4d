package localcachetest

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
)

// follower is a handler that fails the test if a call does not follow from the previous ones, or if
// the cache does not have the change.
type follower struct {
	w *world
	// then, if set, is called at the end of each call.
	then func(old, new *Object)
	busy atomic.Bool

	mu sync.Mutex
	// The fields below are guarded by mu.
	known map[string]*Object
	// newest is the greatest version reported, by key.
	newest map[string]int
	calls  int
}

// follow subscribes a follower.
func (w *world) follow(then func(old, new *Object)) (f *follower, stop func()) {
	f = &follower{w: w, then: then, known: map[string]*Object{}, newest: map[string]int{}}
	return f, w.Cache.Subscribe(f.handle).Stop
}

func (f *follower) handle(old, new *Object) {
	if !f.busy.CompareAndSwap(false, true) {
		f.w.Errorf("a handler was called with (%v, %v) during another call", old, new)
	}
	defer f.busy.Store(false)
	runtime.Gosched() // lets a concurrent call happen, if the cache makes one
	f.learn(old, new)
	if new != nil {
		f.w.checkShows(new)
	} else if old != nil {
		f.w.checkGone(old)
	}
	if f.then != nil {
		f.then(old, new)
	}
}

// learn compares a call with the previous ones.
func (f *follower) learn(old, new *Object) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls++
	object := new
	switch {
	case old == nil && new == nil:
		f.w.Errorf("a handler was called about nothing")
		return
	case new == nil:
		object = old
	case old != nil && old.Key != new.Key:
		f.w.Errorf("a handler received (%v, %v)", old, new)
	}
	if known := f.known[object.Key]; known != old {
		f.w.Errorf("a handler was called with (%v, %v), but knows %v", old, new, known)
	}
	if new == nil {
		delete(f.known, object.Key)
		return
	}
	if newest := f.newest[new.Key]; new.Version <= newest {
		f.w.Errorf("a handler received %v after version %d", new, newest)
	}
	f.newest[new.Key] = max(f.newest[new.Key], new.Version)
	f.known[new.Key] = new
}

// check compares the follower's objects with the expected ones, after all calls.
func (f *follower) check() {
	f.w.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	f.w.mu.Lock()
	defer f.w.mu.Unlock()
	for key, want := range f.w.objects {
		if got := f.known[key]; got == nil || got.Version != want.Version {
			f.w.Errorf("a handler knows %v, want %v", got, want)
		} else if read, _ := f.w.Cache.Get(key); read != got {
			f.w.Errorf("a handler was given %p of %v, Get returns %p", got, got, read)
		}
	}
	for key, got := range f.known {
		if f.w.objects[key] == nil {
			f.w.Errorf("a handler knows %v, which does not exist", got)
		}
	}
}

// count returns the number of calls.
func (f *follower) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

// checkShows fails the test unless every way to read the cache returns object or something newer.
func (w *world) checkShows(object *Object) {
	w.checkSeen("Get", object, first(w.Cache.Get(object.Key)))
	w.checkSeen("All", object, find(w.Cache.All(), object.Key))
	// The index has the object under its group, unless it has changed since.
	if find(w.ByGroup.Get(object.Group), object.Key) == nil {
		if now, _ := w.Cache.Get(object.Key); now == object {
			w.Errorf("a handler received %v, the index does not have it under %s", object, object.Group)
		}
	}
}

// checkSeen fails the test if seen is older than an object that a handler received or WaitFor
// waited for.
func (w *world) checkSeen(how string, received, seen *Object) {
	if seen == nil && !w.mayBeAbsent(received) || seen != nil && seen.Version < received.Version {
		w.Errorf("%v was received or waited for, %s finds %v", received, how, seen)
	}
}

// checkGone fails the test if the cache still has the object, which was deleted.
func (w *world) checkGone(object *Object) {
	for how, seen := range map[string]*Object{
		"Get": first(w.Cache.Get(object.Key)), "All": find(w.Cache.All(), object.Key),
		fmt.Sprint("group ", object.Group): find(w.ByGroup.Get(object.Group), object.Key),
	} {
		if seen != nil && seen.Version <= object.Version {
			w.Errorf("a handler received the deletion of %v, %s finds %v", object, how, seen)
		}
	}
}

func first(object *Object, _ bool) *Object { return object }

// find returns the object of key, or nil.
func find(objects func(yield func(*Object) bool), key string) *Object {
	for object := range objects {
		if object.Key == key {
			return object
		}
	}
	return nil
}
