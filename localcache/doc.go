// Package localcache defines the local cache of one resource: what a component
// reads instead of asking the API server, and what tells it of changes. The cache
// may be old. It is never torn and never moves backwards.
//
//	pods := localcache.NewMap(web, db) // in a program: an informer.Informer
//	defer pods.Subscribe(func(old, new *corev1.Pod) { ... }).Stop()
//	<-pods.Synced()
//	pod, ok := pods.Get("default/web")
//
// A component asks for the smallest interface it can work with: a [Getter] to
// find objects, a [Reader] to list them too, a [Subscriber] to follow changes, a
// [Cache] for all of it. Package informer has the cache that follows an API
// server, [Map] is one that a program fills itself, as tests do. Package
// localcachetest proves that a cache keeps this contract.
//
// # Reading
//
// All methods are safe for concurrent use and none of them asks a server. Before
// [Subscriber.Synced] is closed a cache may be empty or hold a part of the
// resource: an object that it does not have may still exist.
//
// One call of All, or of an index, yields the objects of one moment. Two calls
// may be of two moments, of which the second is not older. The cache may change
// during an iteration, and the body of the loop may use it in every way.
//
// # Objects
//
// Objects are shared by all readers and handlers. Nobody changes one, neither the
// cache nor those who read it: whoever wants another state makes a copy. T is a
// pointer or has another zero value that no object has.
//
// # Changes
//
// A handler is called with (zero, object) for every object that exists when it
// subscribes and then for every change: (zero, new) for an addition, (old, new)
// for an update, (old, zero) for a deletion. Calls for one handler come one at a
// time, and those about one key in the order of the changes. Between different
// handlers and different keys there is no order.
//
// Old is the very object that was new in the call before about the same key, so a
// handler can take back what it made of it. Changes may be merged: a handler is
// told of the newest state in any case, but not of every state before. When a
// cache lists anew, after it lost the server, a handler is told of the difference:
// what did not change is not reported, and an object that is gone is reported as
// deleted, with the last state known. An object that replaces another of the same
// key is reported as an update, or as a deletion and an addition.
//
// By the time of a call the cache shows the change, or something newer.
//
// # Handlers
//
// A handler may read the cache, subscribe to it and, where it can be written to,
// change it. It must not stop a subscription of the same cache, wait for the cache
// to move on, or block on anything that may wait for the cache: a cache may call
// its handlers from the goroutine that stores changes. A panic in a handler is not
// contained.
package localcache
