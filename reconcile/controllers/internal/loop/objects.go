package loop

import (
	"github.com/planekit/planekit/localcache"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Objects reports the changes of a typed cache as changes of metadata, so that caches of several
// types can be watched alike. Absent objects are nil. T is a pointer: the constraint leaves out
// comparable, with which the compiler would copy the code for each type.
type Objects[T metav1.Object] struct {
	Cache localcache.Subscriber[T]
}

// Subscribe implements [localcache.Subscriber].
func (o Objects[T]) Subscribe(handle func(old, new metav1.Object)) localcache.Subscription {
	return o.Cache.Subscribe(func(old, new T) { handle(Object(old), Object(new)) })
}

// Synced implements [localcache.Subscriber].
func (o Objects[T]) Synced() <-chan struct{} { return o.Cache.Synced() }

// Object returns t, or nil if t is a nil pointer: an interface that holds one is not nil.
func Object[T metav1.Object](t T) metav1.Object {
	var none T
	if any(t) == any(none) {
		return nil
	}
	return t
}
