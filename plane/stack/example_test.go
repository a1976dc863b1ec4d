package stack_test

import (
	"context"
	"fmt"

	"github.com/planekit/planekit/plane/stack"
)

func Example() {
	s := stack.New()
	for _, name := range []string{"storage", "server"} {
		s.Start(name, func(ctx context.Context) error {
			<-ctx.Done()
			fmt.Println("stopped", name)
			return nil
		})
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel() // an interrupt
	fmt.Println(s.Run(ctx), s.Stop())
	// Output:
	// stopped server
	// stopped storage
	// <nil> <nil>
}
