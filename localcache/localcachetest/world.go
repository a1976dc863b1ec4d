package localcachetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"testing/synctest"
	"time"
)

// tester has the methods of *testing.T that the checks use.
type tester interface {
	Helper()
	Context() context.Context
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
	Logf(format string, args ...any)
}

// world is a cache under test and its expected objects.
type world struct {
	tester
	Harness
	random *rand.Rand

	mu sync.Mutex
	// The fields below are guarded by mu.
	version int
	objects map[string]*Object
	// deleted holds, by key, the version of the last deleted object. It is set before the harness
	// deletes the object.
	deleted map[string]int
}

// groups is the number of groups of objects.
const groups = 3

func newWorld(t tester, h Harness) *world {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	return &world{tester: t, Harness: h, random: rand.New(rand.NewPCG(seed, 0)), objects: map[string]*Object{}, deleted: map[string]int{}}
}

// put stores a new object of key, in a group that changes with each version.
func (w *world) put(key string) (object *Object, revision string) {
	w.mu.Lock()
	w.version++
	object = &Object{Key: key, Group: fmt.Sprint(w.version % groups), Version: w.version}
	w.objects[key] = object
	w.mu.Unlock()
	return object, w.Put(object)
}

// remove deletes the object of key, if any.
func (w *world) remove(key string) (revision string) {
	w.mu.Lock()
	object, ok := w.objects[key]
	if ok {
		delete(w.objects, key)
		w.deleted[key] = object.Version
	}
	w.mu.Unlock()
	if !ok {
		return ""
	}
	return w.Delete(key)
}

// replace makes the cache list exactly objects.
func (w *world) replace(objects ...*Object) {
	w.mu.Lock()
	for key, object := range w.objects {
		w.deleted[key] = object.Version
	}
	w.objects = map[string]*Object{}
	for _, object := range objects {
		w.objects[object.Key] = object
	}
	w.mu.Unlock()
	w.Replace(objects...)
}

// change makes one random change among few keys.
func (w *world) change() {
	key := fmt.Sprint("key", w.random.IntN(8))
	if w.random.IntN(3) == 0 {
		w.remove(key)
	} else {
		w.put(key)
	}
}

// settle waits until the cache has nothing left to do.
func (w *world) settle() { synctest.Wait() }

// within runs f and fails the test if it does not return within a minute of the bubble's time,
// which passes at once if nothing else happens.
func (w *world) within(what string, f func()) {
	w.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		w.Fatalf("%s did not return", what)
	}
}

// pause lets other goroutines run in round i of a loop, and every few rounds it also advances the
// clock of the bubble.
func pause(i int) {
	runtime.Gosched()
	if i%8 == 7 {
		time.Sleep(time.Microsecond)
	}
}

// mayBeAbsent reports whether an object was deleted, or its deletion has begun.
func (w *world) mayBeAbsent(object *Object) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.deleted[object.Key] >= object.Version
}

// checkContent compares all ways to read the cache, after all changes, with the expected objects.
func (w *world) checkContent() {
	w.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	all := slices.Collect(w.Cache.All())
	for _, object := range all {
		if want := w.objects[object.Key]; want == nil || want.Version != object.Version {
			w.Errorf("All yields %v, want %v", object, want)
		}
		if got, ok := w.Cache.Get(object.Key); !ok || got != object {
			w.Errorf("Get returns %p of %v, All yields %p", got, got, object)
		}
	}
	if len(all) != len(w.objects) {
		w.Errorf("All yields %d objects, want %d", len(all), len(w.objects))
	}
	for key := range w.deleted {
		if got, ok := w.Cache.Get(key); w.objects[key] == nil && (ok || got != nil) {
			w.Errorf("Get returns %v after its deletion", got)
		}
	}
	found := 0
	for g := range groups {
		for object := range w.ByGroup.Get(fmt.Sprint(g)) {
			found++
			if got, _ := w.Cache.Get(object.Key); got != object || object.Group != fmt.Sprint(g) {
				w.Errorf("the index has %v under %d, Get returns %v of group %s", object, g, got, object.Group)
			}
		}
	}
	if found != len(w.objects) {
		w.Errorf("the index yields %d objects, want %d", found, len(w.objects))
	}
}
