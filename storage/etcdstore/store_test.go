package etcdstore_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/etcdstore"
	"github.com/planekit/planekit/storage/etcdstore/embedded"
	"github.com/planekit/planekit/storage/storagetest"
)

// patience is how long a test waits for what must come. No machine is so slow:
// what has not come by then never does.
const patience = 2 * time.Minute

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

// Stores of one etcd do not see each other's records.
func TestPrefix(t *testing.T) {
	client := serve(t)
	newStore := stores(client, true)
	one, two := newStore(t), newStore(t)
	for _, s := range []storage.Store{one, two} {
		if _, err := s.Commit(t.Context(), storage.Change{Key: "/a"}); err != nil {
			t.Fatal(err)
		}
		page, err := s.List(t.Context(), "", storage.ListOptions{})
		if err != nil || len(page.Records) != 1 || page.Records[0].Key != "/a" {
			t.Errorf("list: %+v, error %v", page, err)
		}
	}
	whole, err := etcdstore.New(etcdstore.Config{Client: client})
	if err != nil {
		t.Fatal(err)
	}
	page, err := whole.List(t.Context(), "", storage.ListOptions{})
	if err != nil || len(page.Records) != 2 {
		t.Errorf("list without a prefix: %+v, error %v", page, err)
	}
}

// Two servers in one process share nothing.
func TestTwoServers(t *testing.T) {
	one, two := stores(serve(t), true)(t), stores(serve(t), true)(t)
	if _, err := one.Commit(t.Context(), storage.Change{Key: "/a"}); err != nil {
		t.Fatal(err)
	}
	if _, err := two.Get(t.Context(), "/a", 0); !errors.Is(err, storage.ErrNotFound) {
		t.Errorf("get from the other server: %v", err)
	}
}

func BenchmarkEmbedded(b *testing.B) {
	storagetest.Bench(b, stores(serve(b), true))
}
