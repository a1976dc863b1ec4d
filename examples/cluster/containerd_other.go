//go:build !linux

package main

import (
	"errors"

	"github.com/planekit/planekit/plane/nodes"
)

// newContainerdRuntime is not reached: containerd.Available says no first.
func (c *cluster) newContainerdRuntime(place, map[string]string) (nodes.Runtime, error) {
	return nil, errors.New("containerd needs Linux")
}

func asPlugin() (code int, ok bool) { return 0, false }
