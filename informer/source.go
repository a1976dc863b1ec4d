package informer

import "context"

// A Sink receives the state of one resource type and then its changes, all
// from one goroutine. Revisions are opaque to the sender's transport but
// ordered (see [Config].Compare).
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

// A Source lists and watches in one.
type Source[T any] interface {
	// Sync brings sink up to date and keeps it so until ctx is done or the
	// connection breaks; it always returns an error then. With from empty, or
	// too old to resume from, it begins with Replace; else it goes on with the
	// changes after from. Objects handed to sink are immutable from then on.
	Sync(ctx context.Context, from string, sink Sink[T]) error
}
