//go:build noembed

package main

import (
	"context"
	"errors"

	"github.com/planekit/planekit/storage"
)

// withEmbedded says why the program has no etcd.
func (o *options) withEmbedded(context.Context, func(context.Context, storage.Store) error) error {
	return errors.New("no etcd is linked into this program (it was built with -tags noembed): " +
		"--etcd-servers names one outside, --storage memory needs none")
}
