package localcachetest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
)

// changeInIteration: the body of a loop over the cache may change and read it.
func changeInIteration(w *world) {
	w.Sync()
	for i := range 10 {
		w.put(fmt.Sprint(i))
	}
	w.settle()
	w.within("a change during an iteration", func() {
		seen := 0
		for object := range w.Cache.All() {
			seen++
			w.put(object.Key)
			w.Cache.Get(object.Key)
			for range w.Cache.All() {
				break
			}
		}
		if seen != 10 {
			w.Errorf("All yields %d objects, of which some changed meanwhile, want 10", seen)
		}
		for object := range w.ByGroup.Get("1") {
			w.remove(object.Key)
		}
		for range w.ByGroup.Get("2") {
			break
		}
	})
	w.settle()
	w.checkContent()
}

// waitFor: WaitFor returns when the cache has the revision, and not earlier.
func waitFor(w *world) {
	w.Sync()
	for range 50 {
		object, revision := w.put("a")
		if err := w.wait(revision); err != nil {
			w.Fatalf("WaitFor: %v", err)
		}
		w.checkSeen("Get", object, first(w.Cache.Get("a")))
		revision = w.remove("a")
		if err := w.wait(revision); err != nil {
			w.Fatalf("WaitFor: %v", err)
		}
		if got, ok := w.Cache.Get("a"); ok {
			w.Errorf("Get returns %v after waiting for its deletion", got)
		}
	}
	if err := w.wait(""); err != nil {
		w.Errorf("WaitFor the empty revision: %v", err)
	}
}

// wait waits for a minute of the bubble's time.
func (w *world) wait(revision string) (err error) {
	ctx, cancel := context.WithTimeout(w.Context(), time.Minute)
	defer cancel()
	w.within("WaitFor", func() { err = w.Cache.WaitFor(ctx, revision) })
	return err
}

// waitForUnsynced: before the first list, WaitFor waits for the list or the end of ctx.
func waitForUnsynced(w *world) {
	_, revision := w.put("a")
	ctx, cancel := context.WithTimeout(w.Context(), time.Second)
	defer cancel()
	for _, r := range []string{"", revision} {
		w.within("WaitFor", func() {
			if err := w.Cache.WaitFor(ctx, r); !errors.Is(err, context.DeadlineExceeded) {
				w.Errorf("WaitFor %q before the first list: %v, want the error of its context", r, err)
			}
		})
	}
	answers := make(chan error, 2)
	for _, r := range []string{"", revision} {
		go func() { answers <- w.wait(r) }()
	}
	w.settle()
	w.Sync()
	for range 2 {
		if err := <-answers; err != nil {
			w.Errorf("WaitFor: %v", err)
		}
	}
	if _, ok := w.Cache.Get("a"); !ok {
		w.Errorf("Get does not find what was waited for")
	}
}

// replace: a new list is reported as the difference.
func replace(w *world) {
	w.Sync()
	kept, _ := w.put("kept")
	w.put("changed")
	w.put("gone")
	w.settle()
	f, end := w.follow(nil)
	defer end()
	w.settle()
	calls := f.count()
	w.replace(kept, w.made("changed"), w.made("new"))
	w.settle()
	f.check()
	w.checkContent()
	if n := f.count() - calls; n != 3 {
		w.Errorf("a list with 3 differences was reported in %d calls", n)
	}
	w.replace()
	w.settle()
	f.check()
	w.checkContent()
	if _, err := w.put("kept"); err == "" {
		w.Errorf("Put returns no revision")
	}
	w.settle()
	f.check()
}

// made returns a new object for replace.
func (w *world) made(key string) *Object {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.version++
	return &Object{Key: key, Group: fmt.Sprint(w.version % groups), Version: w.version}
}

// replaceAtOnce: an iteration never returns objects of two lists.
func replaceAtOnce(w *world) {
	w.Sync()
	const size = 20
	var all sync.WaitGroup
	var writing atomic.Bool
	writing.Store(true)
	for range 2 {
		all.Go(func() {
			for i := 0; writing.Load(); i++ {
				pause(i)
				lists := map[int]int{}
				for object := range w.Cache.All() {
					lists[(object.Version-1)/size]++
					runtime.Gosched()
				}
				for list, n := range lists {
					if n != size {
						w.Errorf("All yields %d of the %d objects of list %d", n, size, list)
						return
					}
				}
			}
		})
	}
	for i := range 100 {
		pause(i)
		var objects []*Object
		for key := range size {
			objects = append(objects, w.made(fmt.Sprint(key)))
		}
		w.replace(objects...)
	}
	writing.Store(false)
	all.Wait()
	w.settle()
	w.checkContent()
}

// index: an index and All have the same objects, even after they have moved to other groups.
func index(w *world) {
	w.put("first")
	w.Sync()
	w.settle()
	w.checkContent()
	for range 100 {
		for range 1 + w.random.IntN(5) {
			w.change()
		}
		w.settle()
		w.checkContent()
	}
	for range w.ByGroup.Get("absent") {
		w.Errorf("the index has something under an absent key")
	}
}

// readers: a reader never sees an object become older, and an index has no object under a wrong
// key.
func readers(w *world) {
	w.Sync()
	var all sync.WaitGroup
	var writing atomic.Bool
	writing.Store(true)
	for range 4 {
		all.Go(func() {
			newest := map[string]int{}
			see := func(how string, object *Object) {
				if object.Version < newest[object.Key] {
					w.Errorf("%s yields %v after version %d", how, object, newest[object.Key])
				}
				newest[object.Key] = object.Version
			}
			for i := 0; writing.Load(); i++ {
				pause(i)
				if object, ok := w.Cache.Get("key1"); ok {
					see("Get", object)
				}
				for object := range w.Cache.All() {
					see("All", object)
				}
				for object := range w.ByGroup.Get("0") {
					see("the index", object)
					if object.Group != "0" {
						w.Errorf("the index has %v of group %s under 0", object, object.Group)
					}
				}
				w.Cache.Subscribe(func(_, _ *Object) {}).Stop()
			}
		})
	}
	for i := range 1000 {
		pause(i)
		w.change()
	}
	writing.Store(false)
	all.Wait()
	w.settle()
	w.checkContent()
}
