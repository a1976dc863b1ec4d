// Package localcache defines the local cache of one resource, which a component reads instead of
// the API server, and which reports changes to it. The cache may be old. It is never torn and never
// moves backwards.
//
//	pods := localcache.NewMap(web, db) // in a program: an informer.Informer
//	defer pods.Subscribe(func(old, new *corev1.Pod) { ... }).Stop()
//	<-pods.Synced()
//	pod, ok := pods.Get("default/web")
//
// A component accepts the smallest interface that it can work with: a [Getter] to find objects, a
// [Reader] to list them too, a [Subscriber] to follow changes, or a [Cache] for all of these.
// Package informer has the cache that follows an API server. [Map] is a cache that a program, such
// as a test, fills itself. Package localcachetest proves that a cache fulfils this contract.
//
// # Reading
//
// All methods are safe for concurrent use, and none of them sends a request to a server. Before
// [Subscriber.Synced] is closed, a cache may be empty or hold a part of the resource, so an object
// that it does not have may still exist.
//
// One call of All, or of an index, returns the objects of one moment. Two calls may return those of
// two moments, of which the second is not older. The cache may change during an iteration, and the
// body of the loop may use the cache in every way.
//
// # Objects
//
// All readers and handlers share the objects. No code may change one, neither the cache nor its
// users: to change an object, make a copy. T is a pointer, or another type whose zero value is not
// an object.
//
// # Changes
//
// A cache calls a handler with (zero, object) for every object that exists at the time of the
// subscription, and then for every change: (zero, new) for an addition, (old, new) for an update,
// (old, zero) for a deletion. One handler receives one call at a time, and the calls for one key in
// the order of the changes. Between different handlers and different keys there is no order.
//
// Old is the same object that was new in the previous call for that key, so that a handler can undo
// the effects of that call. Changes may be merged: a handler always receives the newest state, but
// not every state before. When a cache lists again after it lost the server, handlers receive the
// difference: an unchanged object is not reported, and a missing one is reported as deleted, with
// its last known state. An object that replaces another with the same key is reported as an update,
// or as a deletion and an addition.
//
// At the time of a call the cache has the change, or something newer.
//
// # Handlers
//
// A handler may read the cache, subscribe to it and, if the cache can be written to, change it. It
// must not stop a subscription of the same cache, wait for the cache to advance, or block on
// anything that may wait for the cache, because a cache may call its handlers from the goroutine
// that stores changes. The cache does not recover from a panic in a handler.
package localcache
