package objectstore_test

import (
	"context"
	"fmt"

	"github.com/planekit/planekit/examples/cluster/objectstore"
	"github.com/planekit/planekit/plane/stack"
	"github.com/planekit/planekit/storage"
	"github.com/spf13/pflag"
)

func Example() {
	flags := pflag.NewFlagSet("cluster", pflag.ContinueOnError)
	options := objectstore.AddFlags(flags)
	if err := flags.Parse([]string{"--storage", "memory"}); err != nil {
		panic(err)
	}
	if err := options.Check(); err != nil {
		panic(err)
	}
	ctx, s := context.Background(), stack.New()
	opened, err := objectstore.Open(ctx, objectstore.Config{Options: options, Stack: s})
	if err != nil {
		panic(err)
	}
	record, err := opened.Store.Commit(ctx, storage.Change{Op: storage.Create, Key: "/registry/a", Value: []byte("1")})
	if err != nil {
		panic(err)
	}
	fmt.Printf("%s is %s\n", record.Key, record.Value)
	if err := s.Stop(); err != nil {
		panic(err)
	}
	// Output: /registry/a is 1
}
