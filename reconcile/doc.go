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
//	stop := lamps.Subscribe(func(old, new *Lamp) { c.Enqueue(keyOf(old, new)) })
//	err = c.Run(ctx)
//
// # Model
//
// A [Queue] holds keys, not events: a key added many times is handed out once.
// A key added while it is being worked on is handed out again afterwards. So a
// reconciler which reads the state after it was called always ends up having
// seen the newest. Keys come in the order in which they were added.
//
// # Failures
//
// A reconciler that fails or panics is called again for the same key, after 5
// ms, 10 ms and so on up to 1000 s, until it succeeds. Other keys do not wait
// for it. Nothing survives a restart: the caller enqueues every key when it
// starts, which following an informer does by itself.
//
// # Left out
//
// Priorities, leader election, and a limit on the rate over all keys.
//
// Package controllers has the controllers of Kubernetes. This package knows
// nothing of Kubernetes.
package reconcile
