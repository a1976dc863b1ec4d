// Package reconcile calls a function for each key that may need work: never concurrently for one
// key, again after a failure, and always after the last of a series of changes.
//
//	c, err := reconcile.New(reconcile.Config[string]{
//		Name: "lamps",
//		Reconcile: func(ctx context.Context, key string) (reconcile.Result, error) {
//			// compare what is with what should be, take a step
//			return reconcile.Result{}, nil
//		},
//	})
//	reconcile.Watch(c, lamps, reconcile.Itself(localcache.KeyOf[*Lamp])) // keys are namespace/name
//	err = c.Run(ctx)
//
// # Model
//
// A [Queue] holds keys, not events: a key that is added many times is returned once. A key that is
// added while it is in progress is returned again afterwards. So a reconciler that reads the state
// after it was called always sees the newest state in the end.
//
// Keys are returned in the order in which they were added, higher priorities first. If the queue
// has tenants, they take turns within a priority, so that a key never waits for all keys of another
// tenant. Priorities are strict: lower ones wait as long as there are keys of a higher one.
//
// # Failures
//
// After an error or a panic, the reconciler is called again for the key, after 5 ms, 10 ms and so
// on up to 1000 s, until it succeeds. Other keys do not wait for it. The queue does not survive a
// restart: the caller must enqueue every key at the start, which following an informer does.
//
// # One of many
//
// An [Elector] runs work in one of many processes at a time. A process that was paused for longer
// than its lease cannot know it. Protect writes that such a process must not make with the [Fence]
// in the context of the work.
//
// # Left out
//
// A rate limit over all keys: Kubernetes' controllers have a limit of 10 retries per second, which
// also slows them down after an outage.
//
// Package controllers contains Kubernetes' controllers. This package does not depend on Kubernetes.
package reconcile
