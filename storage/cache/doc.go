// Package cache keeps a decoded copy of the records under a prefix. Reads are as consistent as
// those of the store, and all watches share one log of changes.
//
//	feed, err := cache.NewFeed(cache.FeedConfig{Store: store, Prefix: "/registry/"})
//	pods, err := cache.New(cache.Config[*Pod]{Feed: feed, Prefix: "/registry/core/pods/", Decode: decode})
//	go feed.Run(ctx)
//	now, err := pods.Current(ctx)
//	for item := range now.All("/registry/core/pods/default/", "") { ... }
//
// A [Feed] follows the store with one watch and dispatches each change to the [Cache] of its
// prefix. A cache reads its records on first use and then applies changes in the store's order. It
// may be behind the store, but it never shows a state that the store did not have at that revision.
//
// Current is linearizable: it asks the store for its revision, which is cheap, and waits until the
// copy is that new. A [Snapshot] is immutable and is taken without copying. Recent snapshots are
// kept, so that a state can be read again by its revision. A [Watch] is a cursor in the shared log.
// A slow watch does not delay the other watches; it ends when the log no longer contains its next
// change. A watch that begins before the log reads the store's own history until it reaches the
// log.
//
// Items, and the objects and bytes in them, are shared and must not be changed.
//
// Failures: a record that cannot be decoded is an [Item] with an error and does not affect other
// records. [storage.ErrCompacted] means that a revision is too old. [ErrBehind] means that the
// store has not sent the changes up to its current revision; the caller may read the store instead.
// If the store compacts changes before the feed has read them, every cache reads its records again,
// keeps unchanged items, and ends watches that missed a change with ErrCompacted.
//
// Without Run, the goroutines that wait for changes read the watch. Reads and watches still work,
// and the store is not read between them.
//
// Not included: writes, and any knowledge of the objects.
package cache
