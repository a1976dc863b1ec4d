package informer

import "github.com/planekit/planekit/localcache"

// An Object is an API object, such as a *corev1.Pod. UID is the type of UIDs:
// k8s.io/apimachinery's, which this package does not import.
type Object[UID ~string] interface {
	localcache.Object
	GetResourceVersion() string
	GetUID() UID
}

// ObjectConfig returns a Config for the API objects of source, to which the caller
// may add what else it wants. Their keys are those of [localcache.KeyOf], their
// revisions the resource versions, and an object that replaces another of its name
// is reported as a deletion and an addition.
func ObjectConfig[T Object[UID], UID ~string](source Source[T]) Config[T] {
	return Config[T]{
		Source:   source,
		Key:      localcache.KeyOf[T],
		Revision: func(object T) string { return object.GetResourceVersion() },
		UID:      func(object T) string { return string(object.GetUID()) },
	}
}
