// Package localcachetest proves that a cache fulfils the contract of package localcache.
//
//	func TestCache(t *testing.T) {
//		localcachetest.Run(t, func(t *testing.T) localcachetest.Harness { ... })
//	}
//
// Every check runs in a bubble of testing/synctest, so that it can prove without waiting that
// something does not happen. The cache must therefore live in memory, and everything that the
// harness starts must end in a cleanup of its t.
//
// The checks cover the order of changes and their old objects, the state of the cache during a
// handler's call, late and nested subscriptions, the end of a subscription, Synced and CaughtUp,
// WaitFor, new lists, indexes, and readers beside a writer. Run them with the race detector.
package localcachetest
