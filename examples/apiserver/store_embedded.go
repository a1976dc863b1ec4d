//go:build !noembed

package main

import (
	"context"
	"path/filepath"

	"github.com/planekit/planekit/plane/stack"
	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/etcdstore"
	"github.com/planekit/planekit/storage/etcdstore/embedded"
)

// openEmbedded starts the etcd that is linked into the program.
func (o *options) openEmbedded(ctx context.Context, s *stack.Stack) (storage.Store, error) {
	server, err := embedded.New(embedded.Config{Dir: filepath.Join(o.dataDir, "etcd"), Log: o.log.WithName("etcd")})
	if err != nil {
		return nil, err
	}
	s.Start("etcd", server.Run)
	if err := s.Await(ctx, server.Ready()); err != nil {
		return nil, err
	}
	return etcdstore.New(etcdstore.Config{Client: server.Client(), SoleMember: true})
}
