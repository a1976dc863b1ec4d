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

// came puts n objects and returns weak pointers to them.
func came(sink informer.Sink[*object], revision *int, n int) (keys []string, objects []weak.Pointer[object]) {
	for i := range n {
		*revision++
		o := &object{key: fmt.Sprint("key ", i), revision: *revision}
		sink.Put(strconv.Itoa(*revision), o)
		keys, objects = append(keys, o.key), append(objects, weak.Make(o))
	}
	return keys, objects
}

// kept counts the objects that are still reachable.
func kept(objects []weak.Pointer[object]) int {
	runtime.GC()
	return len(objects) - len(slices.DeleteFunc(slices.Clone(objects), func(p weak.Pointer[object]) bool { return p.Value() != nil }))
}

// TestDeletedObjectsAreReleased adds and removes objects and then changes nothing. All handlers
// have received the changes, so nothing may refer to the objects.
func TestDeletedObjectsAreReleased(t *testing.T) {
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
		received, receivedLater := 0, 0
		inf.Subscribe(func(_, _ *object) { received++ })
		revision := 0
		keys, objects := came(sink, &revision, 20)
		synctest.Wait()
		for _, key := range keys {
			revision++
			sink.Remove(strconv.Itoa(revision), &object{key: key, revision: revision})
		}
		synctest.Wait()
		if received != 40 {
			t.Fatalf("received %d changes, want 40", received)
		}
		if n := kept(objects); n > 0 {
			t.Errorf("%d of 20 objects are kept that came and went", n)
		}
		inf.Subscribe(func(_, _ *object) { receivedLater++ })
		synctest.Wait()
		for range 3 {
			_, objects = came(sink, &revision, 50)
			synctest.Wait()
		}
		if received != 190 || receivedLater != 150 {
			t.Errorf("received %d and %d changes, want 190 and 150", received, receivedLater)
		}
		if n := kept(objects); n != 50 {
			t.Errorf("%d of 50 objects are kept that exist", n)
		}
	})
}

// TestBusyHandlerMissesNothing uses a handler that is slower than the changes for a while.
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
				t.Errorf("received %d after %d", new.revision, last)
			}
			last = new.revision
			time.Sleep(30 * time.Second)
		})
		synctest.Wait() // it receives changes from here on, not the existing objects
		revision := 0
		for n := range 40 {
			came(sink, &revision, n%7+1)
			time.Sleep(time.Duration(n%3) * time.Minute)
		}
		time.Sleep(3 * time.Hour)
		synctest.Wait()
		if last != revision {
			t.Errorf("received up to %d of %d", last, revision)
		}
	})
}
