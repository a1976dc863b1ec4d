// Package embeddedetcd keeps the objects of a control plane in an etcd in the same process:
//
//	p, err := plane.New(plane.Config{Dir: "/var/lib/widgets", OpenStore: embeddedetcd.Open})
//	if err != nil {
//		return err
//	}
//	return p.Run(ctx)
//
// The directory has the certificates of the control plane too, so that clients and tokens are good after a
// restart. One process at a time can use it. Package storage/etcdstore/embedded says what the etcd survives,
// how it is configured, and how it is saved and restored.
package embeddedetcd

import (
	"context"
	"path/filepath"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/plane/stack"
	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/etcdstore"
	"github.com/planekit/planekit/storage/etcdstore/embedded"
)

// Open starts an etcd on s, whose data are in the folder etcd of dir, and returns the store in it once that
// is ready. It is a [github.com/planekit/planekit/plane.StoreOpener].
func Open(ctx context.Context, dir string, s *stack.Stack, log logr.Logger) (storage.Store, error) {
	server, err := embedded.New(embedded.Config{Dir: filepath.Join(dir, "etcd"), Log: log.WithName("etcd")})
	if err != nil {
		return nil, err
	}
	s.Start("etcd", server.Run)
	if err := s.Await(ctx, server.Ready()); err != nil {
		return nil, err
	}
	return etcdstore.New(etcdstore.Config{Client: server.Client(), SoleMember: true})
}
