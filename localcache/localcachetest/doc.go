// Package localcachetest proves that a cache keeps the contract of package
// localcache.
//
//	func TestCache(t *testing.T) {
//		localcachetest.Run(t, func(t *testing.T) localcachetest.Harness { ... })
//	}
//
// Every check runs in a bubble of testing/synctest, so that it can tell that
// something does not happen without waiting. The cache must therefore live in
// memory, and what the harness starts must end in a cleanup of the t it was given.
//
// It checks the order of changes and that old is what was reported before, that
// the cache shows what a handler is called with, late and nested subscriptions, the
// end of a subscription, syncing and catching up, waiting for a revision, new lists,
// indexes, and readers beside a writer: run it with the race detector.
package localcachetest
