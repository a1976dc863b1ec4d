//go:build !linux

package main

import (
	"context"
	"errors"
	"net"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/plane/nodes"
)

// newContainerdRuntime is not reached: containerd.Available says no first.
func (c *cluster) newContainerdRuntime(place, map[string]string) (nodes.Runtime, error) {
	return nil, errors.New("containerd needs Linux")
}

// joinMachines returns the listener: there are no machines.
func (c *cluster) joinMachines(_ context.Context, listener net.Listener) (net.Listener, error) {
	return listener, nil
}

// startOverlay starts none: nothing real has a network here.
func (c *cluster) startOverlay(*client.Client, netConf, nodes.Config) error { return nil }

func asInit() (code int, ok bool) { return 0, false }

func asPlugin() (code int, ok bool) { return 0, false }
