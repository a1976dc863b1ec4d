package main

import (
	"context"
	"time"

	"github.com/planekit/planekit/plane/stack"
	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/etcdstore"
	"github.com/planekit/planekit/storage/memstore"
)

// compactionInterval is how long an external etcd keeps history for watches to
// resume from; kube-apiserver's default. The embedded one compacts itself.
const compactionInterval = 5 * time.Minute

// openStore returns the store that the options name. What it stands on runs on s.
func (o *options) openStore(ctx context.Context, s *stack.Stack) (storage.Store, error) {
	switch {
	case o.etcdServers != "":
		return o.openExternal(ctx, s)
	case o.storage == "memory":
		return memstore.New(), nil
	}
	return o.openEmbedded(ctx, s)
}

func (o *options) openExternal(ctx context.Context, s *stack.Stack) (storage.Store, error) {
	client, err := etcdstore.Dial(ctx, etcdstore.DialConfig{Endpoints: o.endpoints()})
	if err != nil {
		return nil, err
	}
	s.OnStop("connections to etcd", client.Close)
	store, err := etcdstore.New(etcdstore.Config{Client: client})
	if err != nil {
		return nil, err
	}
	s.Start("compaction", func(ctx context.Context) error {
		return store.CompactEvery(ctx, compactionInterval, func(err error) {
			o.log.Error(err, "history is not compacted")
		})
	})
	return store, nil
}
