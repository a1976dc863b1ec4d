//go:build !noembed

package main

import (
	"context"
	"path/filepath"

	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/etcdstore"
	"github.com/planekit/planekit/storage/etcdstore/embedded"
)

// withEmbedded uses the etcd that is linked into the program.
func (o *options) withEmbedded(ctx context.Context, use func(context.Context, storage.Store) error) error {
	server, err := embedded.New(embedded.Config{Dir: filepath.Join(o.dataDir, "etcd"), Log: o.log.WithName("etcd")})
	if err != nil {
		return err
	}
	return beneath(ctx, server.Run, server.Ready(), func(ctx context.Context) error {
		store, err := etcdstore.New(etcdstore.Config{Client: server.Client(), SoleMember: true})
		if err != nil {
			return err
		}
		return use(ctx, store)
	})
}
