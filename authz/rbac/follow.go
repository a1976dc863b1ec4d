package rbac

import (
	"context"
	"time"

	"github.com/planekit/planekit/localcache"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// catchUp is how often a cache is looked at again for objects that have not been
// reported and never will be, because they are gone.
const catchUp = 10 * time.Millisecond

// follow applies the changes of cache. The returned functions end that, and wait
// until all objects that cache was synced with are reported: a cache is synced
// when it has them, which is before its handlers have heard of all of them.
func follow[T interface {
	comparable
	metav1.Object
}](a *Authorizer, cache localcache.ListSubscriber[T], translate func(old, new T) change) (stop func(), caughtUp func(context.Context) bool) {
	var none T
	seen := map[bindingKey]bool{} // guarded by a.mu
	stop = cache.Subscribe(func(old, new T) {
		if new != none {
			a.mu.Lock()
			seen[bindingKey{new.GetNamespace(), new.GetName()}] = true
			a.mu.Unlock()
		}
		a.add(translate(old, new))
	})
	reported := func() bool {
		a.mu.Lock()
		defer a.mu.Unlock()
		for object := range cache.All() {
			if !seen[bindingKey{object.GetNamespace(), object.GetName()}] {
				return false
			}
		}
		return true
	}
	return stop, func(ctx context.Context) bool {
		select {
		case <-cache.Synced():
		case <-ctx.Done():
			return false
		}
		for !reported() {
			select {
			case <-time.After(catchUp):
			case <-ctx.Done():
				return false
			}
		}
		return true
	}
}
