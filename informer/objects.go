package informer

import "github.com/planekit/planekit/localcache"

// An Object is an API object, such as a *corev1.Pod. UID is the type of its UID. A type parameter
// stands for the type in k8s.io/apimachinery, which this package does not import.
type Object[UID ~string] interface {
	localcache.Object
	GetResourceVersion() string
	GetUID() UID
}

// For returns an Informer of the API objects of source, such as a client.Resource. It is [New] with
// the Config that [ConfigFor] returns.
func For[T Object[UID], UID ~string](source Source[T]) (*Informer[T], error) {
	return New(ConfigFor(source))
}

// ConfigFor returns the Config of [For], to which a caller can add more, such as a Log. Keys are those
// of [localcache.KeyOf] and revisions the resource versions. If an object replaces another one of the
// same name, handlers receive a deletion and an addition.
func ConfigFor[T Object[UID], UID ~string](source Source[T]) Config[T] {
	return Config[T]{
		Source:   source,
		Key:      localcache.KeyOf[T],
		Revision: func(object T) string { return object.GetResourceVersion() },
		UID:      func(object T) string { return string(object.GetUID()) },
	}
}
