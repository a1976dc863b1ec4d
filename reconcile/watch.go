package reconcile

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/localcache"
)

// Watch enqueues the keys that keys returns for each change in a cache: the key of the object
// itself, or of an object that owns it, owned it, or refers to it. old or new is the zero T if the
// object did not exist before or does not exist any more. Run subscribes to each cache and waits
// until all are synced, and the handlers have seen all first objects, before the first call: an
// object that is not listed yet would seem not to exist.
//
// Watch must be called before Run. The caller runs the cache. If it is not synced 5 seconds after
// Run has begun, Run logs its type, because a cache that is not run never syncs.
func Watch[K comparable, T any](c *Controller[K], cache localcache.Subscriber[T], keys func(old, new T) iter.Seq[K]) {
	WatchFunc(c, cache, func(old, new T) {
		for key := range keys(old, new) {
			c.Enqueue(key)
		}
	})
}

// WatchFunc is Watch with a handler that enqueues by itself, for example with a delay,
// or that records what it has seen. The handler must not block.
func WatchFunc[K comparable, T any](c *Controller[K], cache localcache.Subscriber[T], handle func(old, new T)) {
	c.watches = append(c.watches, watch{
		subscribe: func() localcache.Subscription { return cache.Subscribe(handle) },
		cache:     fmt.Sprintf("%T", cache),
	})
}

// Itself returns a key function that enqueues the key of a changed object, and both keys if the old
// and the new object have different ones. T must be a pointer, or another type whose zero value is
// not an object.
func Itself[K, T comparable](key func(T) K) func(old, new T) iter.Seq[K] {
	return Owners(func(object T) []K { return []K{key(object)} })
}

// Owners returns a key function that enqueues the owners of both the old and the new object, each
// once, because an owner that lost a part must look again as well.
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
	subscribe func() localcache.Subscription
	cache     string // the type of the cache, for logs
}

// slowSync is the time after which follow logs which cache it waits for.
const slowSync = 5 * time.Second

// follow begins all subscriptions and waits until each has caught up: a handler that records what it
// has seen must not lag behind its cache. It reports whether they had before ctx was done.
func follow(ctx context.Context, log logr.Logger, watches []watch) (stop func(), complete bool) {
	subscriptions := make([]localcache.Subscription, 0, len(watches))
	stop = func() {
		for _, s := range subscriptions {
			s.Stop()
		}
	}
	for _, w := range watches {
		subscriptions = append(subscriptions, w.subscribe())
	}
	slow := time.NewTimer(slowSync)
	defer slow.Stop()
	for _, s := range subscriptions {
		for waiting := true; waiting; {
			select {
			case <-s.CaughtUp:
				waiting = false
			case <-slow.C:
				logUnsynced(log, watches, subscriptions)
			case <-ctx.Done():
				return stop, false
			}
		}
	}
	return stop, true
}

// logUnsynced logs the caches that are not synced yet.
func logUnsynced(log logr.Logger, watches []watch, subscriptions []localcache.Subscription) {
	for n, w := range watches {
		select {
		case <-subscriptions[n].CaughtUp:
		default:
			log.Info("waiting for a cache to sync: is it run, and may its user list and watch?", "cache", w.cache, "waited", slowSync)
		}
	}
}
