package rbac

import (
	"context"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// catchUp is how often a source is looked at again for objects that have not
// been reported and never will be, because they are gone.
const catchUp = 10 * time.Millisecond

// follow has the changes of source applied. The returned functions end that,
// and wait until all objects that source has been synced with are reported: a
// source is synced when it has them, which is before all its followers do.
func follow[T interface {
	comparable
	metav1.Object
}](a *Authorizer, source Source[T], translate func(old, new T) change) (stop func(), caughtUp func(context.Context) bool) {
	var none T
	seen := map[bindingKey]bool{} // guarded by a.mu
	stop = source.Subscribe(func(old, new T) {
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
		for object := range source.All() {
			if !seen[bindingKey{object.GetNamespace(), object.GetName()}] {
				return false
			}
		}
		return true
	}
	return stop, func(ctx context.Context) bool {
		select {
		case <-source.Synced():
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
