package rbac

import (
	"context"
	"time"

	"github.com/planekit/planekit/localcache"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// catchUp is the interval at which a cache is checked for objects that have disappeared before they
// were reported.
const catchUp = 10 * time.Millisecond

// follow applies the changes of cache. The returned functions stop it, and wait until all objects
// in the synced cache are reported: a cache is synced before its handlers have received all
// objects.
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
