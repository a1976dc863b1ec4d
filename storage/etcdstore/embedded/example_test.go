package embedded_test

import (
	"context"
	"fmt"
	"os"

	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/etcdstore"
	"github.com/planekit/planekit/storage/etcdstore/embedded"
)

func Example() {
	dir, err := os.MkdirTemp("", "etcd")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer func() { _ = os.RemoveAll(dir) }()
	server, err := embedded.New(embedded.Config{Dir: dir})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	select {
	case <-server.Ready():
		fmt.Println(use(ctx, server))
		cancel()
		fmt.Println(<-done)
	case err := <-done:
		cancel()
		fmt.Println(err)
	}
	// Output:
	// hello <nil>
	// <nil>
}

func use(ctx context.Context, server *embedded.Server) (string, error) {
	store, err := etcdstore.New(etcdstore.Config{Client: server.Client(), SoleMember: true})
	if err != nil {
		return "", err
	}
	record, err := store.Commit(ctx, storage.Change{Key: "/greeting", Value: []byte("hello")})
	return string(record.Value), err
}
