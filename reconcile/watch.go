package reconcile

import (
	"context"
	"iter"
	"slices"

	"github.com/planekit/planekit/localcache"
)

// Watch enqueues the keys that the changes in a cache point to: the object itself,
// or an object that owns it, did own it, or refers to it. What keys yields is
// enqueued as it comes; old or new is nil, the zero T, where there is none. Run
// subscribes to each cache and waits until all of them are synced before its first
// call: what is not listed yet would look as if it did not exist.
//
// Watch must be called before Run.
func Watch[K comparable, T any](c *Controller[K], cache localcache.Subscriber[T], keys func(old, new T) iter.Seq[K]) {
	c.watches = append(c.watches, watch{
		subscribe: func() func() {
			return cache.Subscribe(func(old, new T) {
				for key := range keys(old, new) {
					c.Enqueue(key)
				}
			}).Stop
		},
		synced: cache.Synced(),
	})
}

// Itself yields the keys of a changed object, which are one unless key gives the
// old object another than the new. T is a pointer, or has another zero value
// that no object has.
func Itself[K, T comparable](key func(T) K) func(old, new T) iter.Seq[K] {
	return Owners(func(object T) []K { return []K{key(object)} })
}

// Owners yields the keys that owners gives for the object as it was and as it is,
// each once: whoever lost a part must look again as well as who won it.
func Owners[K, T comparable](owners func(T) []K) func(old, new T) iter.Seq[K] {
	return func(old, new T) iter.Seq[K] {
		var none T
		var keys []K
		for _, object := range []T{old, new} {
			if object == none {
				continue
			}
			for _, key := range owners(object) {
				if !slices.Contains(keys, key) {
					keys = append(keys, key)
				}
			}
		}
		return slices.Values(keys)
	}
}

// watch is one subscription of a controller.
type watch struct {
	subscribe func() (stop func())
	synced    <-chan struct{}
}

// follow begins all subscriptions and waits for the caches. It reports whether
// they were synced before ctx was done.
func follow(ctx context.Context, watches []watch) (stop func(), complete bool) {
	stops := make([]func(), 0, len(watches))
	stop = func() {
		for _, one := range stops {
			one()
		}
	}
	for _, w := range watches {
		stops = append(stops, w.subscribe())
	}
	for _, w := range watches {
		select {
		case <-w.synced:
		case <-ctx.Done():
			return stop, false
		}
	}
	return stop, true
}
