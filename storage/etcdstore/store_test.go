package etcdstore_test

import (
	"context"
	"fmt"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/etcdstore"
	"github.com/planekit/planekit/storage/etcdstore/embedded"
	"github.com/planekit/planekit/storage/storagetest"
)

// serve runs an etcd in this process for as long as t.
func serve(t testing.TB) *clientv3.Client {
	t.Helper()
	server, err := embedded.New(embedded.Config{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	select {
	case <-server.Ready():
	case err := <-done:
		t.Fatal(err)
	}
	return server.Client()
}

// stores returns a maker of stores that share client but no keys.
func stores(client *clientv3.Client, soleMember bool) func(testing.TB) storage.Store {
	n := 0
	return func(t testing.TB) storage.Store {
		n++
		store, err := etcdstore.New(etcdstore.Config{
			Client: client, Prefix: fmt.Sprintf("/%03d", n), SoleMember: soleMember,
		})
		if err != nil {
			t.Fatal(err)
		}
		return store
	}
}

func TestEmbedded(t *testing.T) {
	storagetest.Run(t, stores(serve(t), true))
}

func BenchmarkEmbedded(b *testing.B) {
	storagetest.Bench(b, stores(serve(b), true))
}
