package reconcile

import (
	"context"
	"iter"
	"slices"
)

// Subscriber is a local copy, as package informer keeps one.
type Subscriber[T any] interface {
	// Subscribe has handle called for each change, and with a nil old object for
	// each object that there is at first, until stop is called. A deletion has a nil
	// new object.
	Subscribe(handle func(old, new T)) (stop func())
	// Synced is closed once the copy is complete.
	Synced() <-chan struct{}
}

// Watch has c called for keys that the changes of T in a copy point to: the
// object itself, or whoever owns it, did own it, or refers to it. What keys
// yields is enqueued as it comes; old or new is nil, the zero T, where there is
// none. Each of the copies is subscribed to when c runs, which waits for all of
// them to be complete before its first call: what is not listed yet would look as
// if it did not exist.
//
// Watch must be called before Run.
func Watch[K comparable, T any](c *Controller[K], copied Subscriber[T], keys func(old, new T) iter.Seq[K]) {
	c.watches = append(c.watches, watch{
		subscribe: func() func() {
			return copied.Subscribe(func(old, new T) {
				for key := range keys(old, new) {
					c.Enqueue(key)
				}
			})
		},
		synced: copied.Synced(),
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

// follow begins all subscriptions and waits for the copies. It reports whether
// they were complete before ctx was done.
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
