// Package informer keeps a local cache of one resource and reports its changes. The cache may be
// old. It is never torn and never moves backwards.
//
//	pods, err := informer.For(source) // lists and watches, as typed.Pods(client) does
//	byNode := informer.NewIndex(pods, func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
//	go pods.Run(ctx)
//	<-pods.Synced()
//	for pod := range byNode.Get("node-1") { ... }
//
// [For] makes the informer of a source of API objects, such as a client.Resource. [ConfigFor] and
// [New] make one with further settings, and New one of any other type.
//
// # Model
//
// An [Informer] is a localcache.Cache and an [Index] a localcache.Index. This page describes the
// guarantees beyond that contract.
//
// One goroutine of [Informer.Run] writes. It stores the reports of a [Source] and publishes an
// immutable state after each change, or after several that came faster than they could be stored
// one by one. Readers get the current state in constant time and without locks. Objects are shared
// and must not be changed (informertest finds code that does).
//
// Handlers ([Informer.Subscribe]) follow one shared log, each from its own goroutine and at its own
// pace, and receive every change. A handler that never returns keeps all later changes in memory.
// To read its own writes, a caller passes the revision that the write returned to
// [Informer.WaitFor] before it reads.
//
// # Failures
//
// When the source fails, Run connects again, first after at most 0.1 s, then after 0.8 s and so on
// up to 30 s, with jitter, and continues from the last revision seen. If the source cannot resume,
// it sends a full list, and the informer applies the difference: an object with a known key and
// revision stays the same pointer and is not reported, and a missing one is reported as deleted
// with its last known state. A list that arrives in pieces ([ListSink]) is never in memory beside
// the cache. Changes and lists that are older than the cache are dropped, so that a lagging server
// cannot turn the cache back. After a store was restored from a backup with a lower revision, the
// cache therefore does not change until the store has caught up; restart the program, or raise the
// revision when restoring.
//
// The informer does not recover from a panic in a handler or in a function of [Config].
package informer
