package controllers

import (
	"context"
	"sync"
)

// A Runner is what every controller is.
type Runner interface {
	Run(ctx context.Context) error
}

// Run runs all of runners until ctx is done or one of them fails, then waits
// for the others, which are told to stop. It returns the first failure.
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
