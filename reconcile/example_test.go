package reconcile_test

import (
	"context"
	"errors"
	"fmt"

	"github.com/planekit/planekit/reconcile"
)

func Example() {
	ctx, cancel := context.WithCancel(context.Background())
	attempts := 0
	c, err := reconcile.New(reconcile.Config[string]{
		Name: "greeter",
		Reconcile: func(_ context.Context, key string) (reconcile.Result, error) {
			if attempts++; attempts < 3 {
				return reconcile.Result{}, errors.New("not yet")
			}
			fmt.Println("hello", key, "after", attempts, "attempts")
			cancel()
			return reconcile.Result{}, nil
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	c.Enqueue("world")
	fmt.Println(c.Run(ctx))
	// Output:
	// hello world after 3 attempts
	// <nil>
}
