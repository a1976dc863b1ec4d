package informer

import "context"

// A Sink receives the state of one resource type and then its changes, all
// from one goroutine. Revisions are opaque to the sender's transport but
// ordered: decimal numbers, or the empty string, which is the smallest.
//
// Put, Remove and Bookmark may return before readers see the change: what comes
// fast is stored together. Put and Remove wait while some thousands of
// changes are not stored yet.
//
// Sink is an alias of a literal, so that a client package can offer a Source
// without importing this one.
type Sink[T any] = interface {
	// Replace says: as of revision, these objects exist and no others.
	Replace(revision string, objects []T)
	// Put says that object was created or changed at revision.
	Put(revision string, object T)
	// Remove says that object, given in its last known state, was deleted at
	// revision.
	Remove(revision string, object T)
	// Bookmark says that everything up to revision has been sent.
	Bookmark(revision string)
}

// A ListSink takes a full list piece by piece, so that two copies of
// everything never exist: an object that has not changed since it was last listed is
// garbage as soon as it is listed again. The Sink that an Informer gives to
// its Source is one.
type ListSink[T any] = interface {
	// Begin begins a list and forgets one that was begun and not ended. Nothing
	// but Item and End may follow until it is given up by returning or ended.
	Begin()
	// Item says that object is in the list.
	Item(object T)
	// Unchanged asks whether the copy has the object of a key at just this
	// revision. If so, it is taken to be in the list and need not be given, nor
	// decoded.
	Unchanged(key, revision string) bool
	// End says that the list is complete: as of revision, the objects given since
	// Begin exist and no others. Readers see all of it, and nothing before End.
	End(revision string)
}

// A Source lists and watches in one.
type Source[T any] interface {
	// Sync brings sink up to date and keeps it so until ctx is done or the
	// connection breaks; it always returns an error then. With from empty, or
	// too old to resume from, it begins with Replace, or with Begin if sink is a
	// ListSink; else it goes on with the changes after from. Objects handed to
	// sink are immutable from then on.
	Sync(ctx context.Context, from string, sink Sink[T]) error
}
