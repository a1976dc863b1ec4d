package informer_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"
	"weak"

	"github.com/planekit/planekit/informer"
)

// came puts n objects and returns pointers that do not keep them.
func came(sink informer.Sink[*object], revision *int, n int) (keys []string, objects []weak.Pointer[object]) {
	for i := range n {
		*revision++
		o := &object{key: fmt.Sprint("key ", i), revision: *revision}
		sink.Put(strconv.Itoa(*revision), o)
		keys, objects = append(keys, o.key), append(objects, weak.Make(o))
	}
	return keys, objects
}

// kept counts the objects that something keeps.
func kept(objects []weak.Pointer[object]) int {
	runtime.GC()
	return len(objects) - len(slices.DeleteFunc(slices.Clone(objects), func(p weak.Pointer[object]) bool { return p.Value() != nil }))
}

// TestWhatIsGoneIsLetGo has objects come and go, after which nothing happens. All
// handlers have been told, so that nothing must keep the objects.
func TestWhatIsGoneIsLetGo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sinks := make(chan informer.Sink[*object], 1)
		inf := newInformer(t, sourceFunc(func(ctx context.Context, _ string, sink informer.Sink[*object]) error {
			sink.Replace("0", nil)
			sinks <- sink
			<-ctx.Done()
			return ctx.Err()
		}))
		defer start(t, inf)()
		sink := <-sinks
		told, toldLater := 0, 0
		inf.Subscribe(func(_, _ *object) { told++ })
		revision := 0
		keys, objects := came(sink, &revision, 20)
		synctest.Wait()
		for _, key := range keys {
			revision++
			sink.Remove(strconv.Itoa(revision), &object{key: key, revision: revision})
		}
		synctest.Wait()
		if told != 40 {
			t.Fatalf("told of %d changes, want 40", told)
		}
		if n := kept(objects); n > 0 {
			t.Errorf("%d of 20 objects are kept that came and went", n)
		}
		inf.Subscribe(func(_, _ *object) { toldLater++ })
		synctest.Wait()
		for range 3 {
			_, objects = came(sink, &revision, 50)
			synctest.Wait()
		}
		if told != 190 || toldLater != 150 {
			t.Errorf("told of %d and %d changes, want 190 and 150", told, toldLater)
		}
		if n := kept(objects); n != 50 {
			t.Errorf("%d of 50 objects are kept that exist", n)
		}
	})
}

// TestBusyHandlerMissesNothing has a handler that is slower than the changes for a while.
func TestBusyHandlerMissesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sinks := make(chan informer.Sink[*object], 1)
		inf := newInformer(t, sourceFunc(func(ctx context.Context, _ string, sink informer.Sink[*object]) error {
			sink.Replace("0", nil)
			sinks <- sink
			<-ctx.Done()
			return ctx.Err()
		}))
		defer start(t, inf)()
		sink := <-sinks
		last := 0
		inf.Subscribe(func(_, new *object) {
			if new.revision != last+1 {
				t.Errorf("told of %d after %d", new.revision, last)
			}
			last = new.revision
			time.Sleep(30 * time.Second)
		})
		synctest.Wait() // it is told of changes from here on, not of what exists
		revision := 0
		for n := range 40 {
			came(sink, &revision, n%7+1)
			time.Sleep(time.Duration(n%3) * time.Minute)
		}
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if last != revision {
			t.Errorf("told up to %d of %d", last, revision)
		}
	})
}
