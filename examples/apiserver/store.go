package main

import (
	"context"
	"errors"
	"time"

	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/etcdstore"
	"github.com/planekit/planekit/storage/memstore"
)

// compactionInterval is how long an external etcd keeps history for watches to
// resume from; kube-apiserver's default. The embedded one compacts itself.
const compactionInterval = 5 * time.Minute

// withStore opens the store that the options name and calls use with it. The
// store is there until use has returned; the context of use ends with ctx, or
// when the store fails.
func (o *options) withStore(ctx context.Context, use func(context.Context, storage.Store) error) error {
	switch {
	case o.etcdServers != "":
		return o.withExternal(ctx, use)
	case o.storage == "memory":
		return use(ctx, memstore.New())
	}
	return o.withEmbedded(ctx, use)
}

func (o *options) withExternal(ctx context.Context, use func(context.Context, storage.Store) error) error {
	client, err := etcdstore.Dial(ctx, etcdstore.DialConfig{Endpoints: o.endpoints()})
	if err != nil {
		return err
	}
	defer client.Close()
	store, err := etcdstore.New(etcdstore.Config{Client: client})
	if err != nil {
		return err
	}
	compact := func(ctx context.Context) error {
		return store.CompactEvery(ctx, compactionInterval, func(err error) {
			o.log.Error(err, "history is not compacted")
		})
	}
	ready := make(chan struct{})
	close(ready)
	return beneath(ctx, compact, ready, func(ctx context.Context) error { return use(ctx, store) })
}

// beneath runs upper on top of lower, once ready is closed. lower is stopped after upper has
// ended; if lower ends first, the context of upper is cancelled.
func beneath(ctx context.Context, lower func(context.Context) error, ready <-chan struct{}, upper func(context.Context) error) error {
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	ended := make(chan error, 1)
	go func() {
		defer cancel()
		ended <- lower(life)
	}()
	var err error
	select {
	case <-ready:
		err = upper(ctx)
	case <-ctx.Done():
	}
	stop()
	return errors.Join(err, <-ended)
}
