//go:build !linux

package main

import (
	"context"
	"errors"
	"net"
	"net/netip"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/plane/nodes"
	"github.com/planekit/planekit/plane/podnetwork"
)

// newContainerdRuntime is not reached: containerd.Available says no first.
func (c *cluster) newContainerdRuntime(place, map[string]string) (nodes.Runtime, error) {
	return nil, errors.New("containerd needs Linux")
}

// joinMachines returns the listener: there are no machines.
func (c *cluster) joinMachines(_ context.Context, listener net.Listener) (net.Listener, error) {
	return listener, nil
}

// joinNetwork does nothing: nothing real has a network here.
func (c *cluster) joinNetwork(*client.Client, podnetwork.Network, netip.Addr) error { return nil }

func asOther() (code int, ok bool) { return 0, false }
