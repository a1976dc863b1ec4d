package informer

import "github.com/planekit/planekit/localcache"

// An Object is an API object, such as a *corev1.Pod. UID is the type of UIDs:
// k8s.io/apimachinery's, which this package does not import.
type Object[UID ~string] interface {
	localcache.Object
	GetResourceVersion() string
	GetUID() UID
}

// For returns an Informer of the API objects of source: New of its [ObjectConfig].
func For[T Object[UID], UID ~string](source Source[T]) (*Informer[T], error) {
	return New(ObjectConfig(source))
}

// ObjectConfig returns a Config for the API objects of source, in which the caller
// may set what else it needs. Keys are those of [localcache.KeyOf] and revisions the
// resource versions. An object that replaces another of its name is reported as a
// deletion and an addition.
func ObjectConfig[T Object[UID], UID ~string](source Source[T]) Config[T] {
	return Config[T]{
		Source:   source,
		Key:      localcache.KeyOf[T],
		Revision: func(object T) string { return object.GetResourceVersion() },
		UID:      func(object T) string { return string(object.GetUID()) },
	}
}
