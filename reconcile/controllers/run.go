package controllers

import (
	"context"
	"sync"
)

// A Runner is a controller.
type Runner interface {
	Run(ctx context.Context) error
}

// Run runs all runners until ctx is done or one of them fails. It then cancels the contexts of the
// other runners, waits for them, and returns the first failure.
func Run(ctx context.Context, runners ...Runner) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var failure error
	var once sync.Once
	var all sync.WaitGroup
	for _, r := range runners {
		all.Go(func() {
			if err := r.Run(ctx); err != nil {
				once.Do(func() { failure = err })
				cancel(err)
			}
		})
	}
	all.Wait()
	return failure
}
