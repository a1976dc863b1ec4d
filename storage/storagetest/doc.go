// Package storagetest tests that a [storage.Store] satisfies its contract.
//
//	func TestStore(t *testing.T) {
//		storagetest.Run(t, func(t testing.TB) storage.Store { return memstore.New() })
//	}
//
// Each check uses a store of its own through the interface alone. First come checks of one feature
// each. Then many goroutines use the store concurrently; their observations are compared with the
// order of the revisions, and with any order that a search can find. Last comes [Model], random
// operations that are compared with plain maps. A store with a method Compact(context.Context,
// storage.Revision) error is checked for compaction, and one that implements [storage.Current], or
// whose watches implement [storage.Progresser], for that. [Bench] measures.
//
// [VirtualTime] makes stores in memory run without real waiting. [Lacks] lists features that a
// store does not have and must refuse.
//
// Users of a Store can test themselves with the fault wrappers [Lag], [FailAfter], [LoseReply],
// [CutWatch] and [CompactUnderWatch]. [Record] wraps a store to find out whether its answers are
// linearizable, whatever happens to it and its servers.
//
// A check fails after it has waited for a minute. Random checks print their seed; keep a failing
// one as a call of [Model].
//
// Not included: durability, and faults below the store, which depend on its implementation. A store
// that keeps fewer than 10,000 revisions of history may fail.
package storagetest
