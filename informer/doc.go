// Package informer keeps a local copy of one resource type and reports its
// changes. The copy may be old. It is never torn and never moves backwards.
//
//	pods, err := informer.New(informer.Config[*corev1.Pod]{
//		Source:   source, // lists and watches
//		Key:      func(p *corev1.Pod) string { return p.Namespace + "/" + p.Name },
//		Revision: func(p *corev1.Pod) string { return p.ResourceVersion },
//	})
//	byNode := informer.NewIndex(pods, func(p *corev1.Pod) []string { return []string{p.Spec.NodeName} })
//	go pods.Run(ctx)
//	<-pods.Synced()
//	for pod := range byNode.Get("node-1") { ... }
//
// # Model
//
// One goroutine of [Informer.Run] writes. It stores what a [Source] says and
// publishes an immutable [View] after each change, or after several that came
// faster than they could be stored one by one; between two views lies always a
// part of the history without gaps. Readers take the current view in constant
// time, without locks; everything read from one view, through whatever index,
// is of one revision. Objects are shared and must not be changed by anyone
// (informertest has a detector for those who do).
//
// Handlers ([Informer.Follow], [Informer.Subscribe]) follow one shared log,
// each from its own goroutine and at its own pace. Each is told first of the
// objects that exist and then of what happens, and chooses what becomes of
// changes that wait for it: [Lossless], [Bounded] or [Coalescing]. Old is
// always the very object that was new the time before. By the time a handler is
// told of a change, views show it. A lossless handler that never returns keeps
// in memory everything that happens after.
//
// An [Informer] is a localcache.Cache and an [Index] a localcache.Index. What they
// promise beyond that contract is said here.
//
// [Informer.Synced] means stored; [Handle.Synced] means told. To read one's own
// writes, pass the revision that the write returned to [Informer.WaitFor]
// before reading.
//
// # Failures
//
// When the source fails Run connects again, first after at most 0.1 s, then
// after 0.8 s and so on up to 30 s, with jitter, and goes on from the last
// revision seen. If the source cannot resume it sends a full list, which is
// taken as a diff: an object with a known key and revision stays the same
// pointer and fires nothing, a missing one fires a deletion with its last
// known state. A list that comes piece by piece ([ListSink]) is never in memory
// beside the copy. Whatever is older than the copy, single events and whole
// lists alike, is dropped: a lagging server cannot turn the copy back. The price
// is that a store restored from a backup with a lower revision is not seen until
// it has caught up; restart the program, or restore with the revision raised.
//
// A panic in a handler or in a function of [Config] is not contained.
package informer
