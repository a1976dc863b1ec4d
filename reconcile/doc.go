// Package reconcile makes things so: it calls a function for each key that
// may need work, never twice at a time for one key, again after a failure,
// and never misses the last of a series of changes.
//
//	c, err := reconcile.New(reconcile.Config[string]{
//		Name: "lamps",
//		Reconcile: func(ctx context.Context, key string) (reconcile.Result, error) {
//			// compare what is with what should be, take a step
//			return reconcile.Result{}, nil
//		},
//	})
//	reconcile.Watch(c, lamps, reconcile.Itself(func(l *Lamp) string { return l.Name }))
//	err = c.Run(ctx)
//
// # Model
//
// A [Queue] holds keys, not events: a key added many times is handed out once.
// A key added while it is being worked on is handed out again afterwards. So a
// reconciler which reads the state after it was called always ends up having
// seen the newest.
//
// Keys come in the order in which they were added, those of a higher priority
// first. If the queue knows tenants, they are served in turn within a priority, so
// that one key never waits for all the keys of somebody else. A priority is strict:
// while keys of a higher one never end, others wait.
//
// # Failures
//
// A reconciler that fails or panics is called again for the same key, after 5
// ms, 10 ms and so on up to 1000 s, until it succeeds. Other keys do not wait
// for it. Nothing survives a restart: the caller enqueues every key when it
// starts, which following an informer does by itself.
//
// # One of many
//
// An [Elector] runs work in one of many processes at a time. A process that was
// stopped for longer than its lease lasts cannot know that it was: writes that must
// not come from it carry the [Fence] that the context of the work has.
//
// # Left out
//
// A limit on the rate over all keys: Kubernetes' controllers have one of 10 adds
// a second for what failed, which is also what they wait for after an outage.
//
// Package controllers has the controllers of Kubernetes. This package knows
// nothing of Kubernetes.
package reconcile
