// Package storagetest is the proof that a [storage.Store] must pass.
//
//	func TestStore(t *testing.T) {
//		storagetest.Run(t, func(t testing.TB) storage.Store { return memstore.New() })
//	}
//
// The model: each check gets a store of its own and drives it through the
// interface alone. Checks of one thing at a time come first; then many
// goroutines at once, with what they saw compared to the order that the
// revisions claim, and to any order at all that a search can find; then [Model],
// random operations against plain maps. A store that also has a method
// Compact(context.Context, storage.Revision) error is checked for what it forgets,
// and one that is a [storage.Current] or whose watches are [storage.Progresser]
// for that. [Bench] measures.
//
// [VirtualTime] has stores in memory wait for nothing, and [Lacks] names what a store
// does not do, which it then must refuse.
//
// Beside the suite stand the faults that users of a Store must survive: [Lag],
// [FailAfter], [LoseReply], [CutWatch] and [CompactUnderWatch] wrap a store. And
// [Record] wraps one to find out, after whatever was done to it and to its
// servers, whether its answers are linearizable.
//
// How it fails: a check that waits for what never comes fails after a minute. The
// random checks print their seed; keep a failing one as a call of [Model].
//
// What it leaves out: durability, and faults below the store, which need
// knowledge of it. A store that keeps fewer than 10,000 revisions of history
// may fail for that alone.
package storagetest
