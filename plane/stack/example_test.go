package stack_test

import (
	"context"
	"fmt"

	"github.com/planekit/planekit/plane/stack"
)

func Example() {
	ctx, interrupt := context.WithCancel(context.Background())
	s := stack.New()
	err := s.Main(ctx, func(context.Context) error {
		for _, name := range []string{"storage", "server"} {
			s.Start(name, func(ctx context.Context) error {
				<-ctx.Done()
				fmt.Println("stopped", name)
				return nil
			})
		}
		interrupt()
		return nil
	})
	fmt.Println(err)
	// Output:
	// stopped server
	// stopped storage
	// <nil>
}
