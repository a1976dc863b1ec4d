package informer

import "context"

// A Sink receives the state of one resource type and then its changes, all from one goroutine.
// Revisions are opaque to the sender's transport but ordered: decimal numbers, or the empty string,
// which is the smallest.
//
// Put, Remove and Bookmark may return before readers see the change, because quick changes are
// stored together. Put and Remove wait while some thousands of changes are not stored yet.
//
// Sink is an alias of an interface literal, so that a client package can implement a Source without
// importing this one.
type Sink[T any] = interface {
	// Replace reports that exactly these objects exist as of revision.
	Replace(revision string, objects []T)
	// Put reports that object was created or changed at revision.
	Put(revision string, object T)
	// Remove reports that object, given in its last known state, was deleted at revision.
	Remove(revision string, object T)
	// Bookmark reports that everything up to revision has been sent.
	Bookmark(revision string)
}

// A ListSink receives a full list object by object, so that memory never holds two copies of
// everything: an unchanged object is garbage as soon as it is listed again. The Sink that an
// Informer passes to its Source is a ListSink.
type ListSink[T any] = interface {
	// Begin begins a list and drops an unfinished one. Until End, or until the source abandons the
	// list by returning, only Item, Unchanged and End may follow.
	Begin()
	// Item adds object to the list.
	Item(object T)
	// Unchanged reports whether the cache has the object of key at exactly this revision. If so,
	// the object becomes part of the list, and the source need not decode or send it.
	Unchanged(key, revision string) bool
	// End completes the list: exactly its objects exist as of revision. Readers see all of it at
	// once, and nothing before End.
	End(revision string)
}

// A Source combines list and watch.
type Source[T any] interface {
	// Sync brings sink up to date and keeps it so until ctx is done or the connection breaks; it
	// then returns an error. If from is empty, or too old to resume from, Sync begins with Replace,
	// or with Begin if sink is a ListSink. Otherwise it continues with the changes after from. The
	// source must not change objects that it has passed to sink.
	Sync(ctx context.Context, from string, sink Sink[T]) error
}
