package localcache_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/localcache/localcachetest"
)

// waiting is an overlay that waits for the revisions of one of its caches. Readers of an overlay see
// that cache as it is.
type waiting struct {
	*localcache.Overlay[*localcachetest.Object]
	source *localcache.Map[*localcachetest.Object]
}

func (w waiting) WaitFor(ctx context.Context, revision string) error {
	select {
	case <-w.Synced():
	case <-ctx.Done():
		return ctx.Err()
	}
	return w.source.WaitFor(ctx, revision)
}

func objectKey(o *localcachetest.Object) string { return o.Key }

// overlaid runs an overlay until the test ends.
func overlaid(t *testing.T, top, bottom *localcache.Map[*localcachetest.Object], hidden func(*localcachetest.Object) bool) *localcache.Overlay[*localcachetest.Object] {
	o := localcache.NewOverlay(top, bottom, objectKey, hidden)
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { o.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return o
}

// TestOverlay: an overlay is a cache, whichever of its caches changes.
func TestOverlay(t *testing.T) {
	for _, name := range []string{"top", "bottom"} {
		t.Run(name, func(t *testing.T) {
			localcachetest.Run(t, func(t *testing.T) localcachetest.Harness {
				source, other := localcache.NewUnsynced(objectKey), localcache.NewMapFunc(objectKey)
				top, bottom := source, other
				if name == "bottom" {
					top, bottom = other, source
				}
				o := overlaid(t, top, bottom, nil)
				return localcachetest.Harness{
					Cache:   waiting{o, source},
					ByGroup: localcache.Scan(o, func(o *localcachetest.Object) []string { return []string{o.Group} }),
					Sync:    source.Sync, Put: source.Put, Delete: source.Delete,
					Replace: func(objects ...*localcachetest.Object) { source.Replace(objects...) },
				}
			})
		})
	}
}

// TestOverlayHides: after random changes of both caches, readers and a handler see the objects of a
// plain map.
func TestOverlayHides(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	synctest.Test(t, func(t *testing.T) {
		top, bottom := localcache.NewUnsynced(objectKey), localcache.NewUnsynced(objectKey)
		hidden := func(o *localcachetest.Object) bool { return o.Group == "hidden" }
		o := overlaid(t, top, bottom, hidden)
		received := map[string]*localcachetest.Object{}
		defer o.Subscribe(func(old, new *localcachetest.Object) {
			if old != nil && received[old.Key] != old || old == nil && received[new.Key] != nil {
				t.Errorf("%v was %v", old, received)
			}
			if new == nil {
				delete(received, old.Key)
			} else {
				received[new.Key] = new
			}
		}).Stop()
		for i := range 500 {
			cache, key := top, fmt.Sprint(random.IntN(4))
			if random.IntN(2) == 0 {
				cache = bottom
			}
			group := []string{"shown", "hidden"}[random.IntN(2)]
			if random.IntN(3) == 0 {
				cache.Delete(key)
			} else {
				cache.Put(&localcachetest.Object{Key: key, Group: group, Version: i})
			}
			synctest.Wait()
			check(t, o, received, top, bottom)
		}
		select {
		case <-o.Synced():
			t.Error("synced before its caches")
		default:
		}
		top.Sync()
		bottom.Sync()
		<-o.Synced()
		check(t, o, received, top, bottom)
	})
}

// check compares what an overlay shows and has reported with its two caches.
func check(t *testing.T, o *localcache.Overlay[*localcachetest.Object], received map[string]*localcachetest.Object, top, bottom *localcache.Map[*localcachetest.Object]) {
	t.Helper()
	want := map[string]*localcachetest.Object{}
	for object := range bottom.All() {
		if object.Group != "hidden" {
			want[object.Key] = object
		}
	}
	for object := range top.All() {
		want[object.Key] = object
	}
	all := map[string]*localcachetest.Object{}
	for object := range o.All() {
		all[object.Key] = object
	}
	for _, key := range []string{"0", "1", "2", "3"} {
		got, ok := o.Get(key)
		if got != want[key] || ok != (want[key] != nil) || all[key] != want[key] || received[key] != want[key] {
			t.Fatalf("%s: Get %v, All %v, handler %v, want %v", key, got, all[key], received[key], want[key])
		}
	}
}
