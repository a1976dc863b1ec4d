// Package garbage holds the garbage collector: it deletes objects whose owners are all deleted.
//
//	collector, err := garbage.New(garbage.Config{Kinds: []garbage.Kind{
//		garbage.NewKind(podKind, true, podCache, pods),
//		garbage.NewKind(replicaSetKind, true, replicaSetCache, replicaSets),
//	}})
//	err = collector.Run(ctx)
//
// A graph of the owner references of all cached objects says what a deletion leaves behind. The
// collector asks the API about an owner that no cache has before it deletes anything.
package garbage
