// Package informer keeps a local cache of one resource and reports its changes. The
// cache may be old. It is never torn and never moves backwards.
//
//	pods, err := informer.For(source) // lists and watches, as typed.Pods(client) does
//	byNode := informer.NewIndex(pods, func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
//	go pods.Run(ctx)
//	<-pods.Synced()
//	for pod := range byNode.Get("node-1") { ... }
//
// # Model
//
// An [Informer] is a localcache.Cache and an [Index] a localcache.Index. What they
// promise beyond that contract is said here.
//
// One goroutine of [Informer.Run] writes. It stores what a [Source] reports and
// publishes an immutable state after each change, or after several that came faster
// than they could be stored one by one. Readers take the current state in constant
// time and without locks. Objects are shared and must not be changed (informertest
// finds code that does).
//
// Handlers ([Informer.Subscribe]) follow one shared log, each from its own goroutine
// and at its own pace, and hear of every change. A handler that never returns keeps in
// memory everything that happens after. To read its own writes, a caller passes the
// revision that the write returned to [Informer.WaitFor] before it reads.
//
// # Failures
//
// When the source fails, Run connects again, first after at most 0.1 s, then after
// 0.8 s and so on up to 30 s, with jitter, and continues from the last revision seen.
// If the source cannot resume, it sends a full list, which is taken as a difference: an
// object with a known key and revision stays the same pointer and is not reported, a
// missing one is reported as deleted with its last known state. A list that comes in
// pieces ([ListSink]) is never in memory beside the cache. What is older than the cache,
// single changes and whole lists alike, is dropped: a lagging server cannot turn the
// cache back. A store restored from a backup with a lower revision is therefore not seen
// until it has caught up; restart the program, or restore with the revision raised.
//
// A panic in a handler or in a function of [Config] is not contained.
package informer
