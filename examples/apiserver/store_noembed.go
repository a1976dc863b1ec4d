//go:build noembed

package main

import (
	"context"
	"errors"

	"github.com/planekit/planekit/plane/stack"
	"github.com/planekit/planekit/storage"
)

// openEmbedded returns the error that says why the program has no etcd.
func (o *options) openEmbedded(context.Context, *stack.Stack) (storage.Store, error) {
	return nil, errors.New("no etcd is linked into this program (it was built with -tags noembed): " +
		"--etcd-servers names one outside, --storage memory needs none")
}
