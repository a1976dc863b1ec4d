//go:build !noembed

package main

import (
	"context"

	"github.com/planekit/planekit/plane/embeddedetcd"
	"github.com/planekit/planekit/plane/stack"
	"github.com/planekit/planekit/storage"
)

// openEmbedded starts the etcd that is linked into the program.
func (o *options) openEmbedded(ctx context.Context, s *stack.Stack) (storage.Store, error) {
	return embeddedetcd.Open(ctx, o.dataDir, s, o.log)
}
