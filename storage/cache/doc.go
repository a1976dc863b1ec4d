// Package cache keeps a decoded copy of the records under a prefix, serves
// reads from it that are as good as the store's, and lets any number follow its
// changes at the cost of one.
//
//	feed, err := cache.NewFeed(cache.FeedConfig{Store: store, Prefix: "/registry/"})
//	pods, err := cache.New(cache.Config[*Pod]{Feed: feed, Prefix: "/registry/core/pods/", Decode: decode})
//	go feed.Run(ctx)
//	now, err := pods.Current(ctx)
//	for item := range now.All("/registry/core/pods/default/", "") { ... }
//
// The model: a [Feed] follows the store by one watch and hands every change to
// the [Cache] whose prefix it is under. A cache reads its records when it is
// first asked and then applies changes in the store's order. It may be behind
// the store and never shows a state that the store did not have at that
// revision.
//
// Current is linearizable: it asks the store for its revision, which is cheap,
// and waits until the copy is that new. A [Snapshot] is immutable; taking one
// copies nothing, and those of the recent past are remembered, so that a state
// can be had again by its revision. A [Watch] is a cursor in one log of changes
// that all share; a slow one delays nobody, and when the log no longer reaches
// back to it, it ends. A watch that begins before the log is read from the store
// until it has caught up with the log.
//
// Items, and the objects and bytes in them, are shared and must not be changed.
//
// How it fails: a record that cannot be decoded is an [Item] with an error, and
// hides no other. [storage.ErrCompacted] says that a revision is too old;
// [ErrBehind] that the store has a revision that it does not send changes up to,
// and the caller may ask the store itself. When the store forgets changes before
// the feed has read them, every cache reads its records again, keeps what has
// not changed, and ends the watches that missed something with ErrCompacted.
//
// Without Run, changes are read by whoever waits for one: reads and watches work,
// and nothing is read while nobody asks.
//
// What it leaves out: writes, and any idea of what an object is.
package cache
