package main

import (
	"context"
	"net/netip"

	"github.com/planekit/planekit/examples/cluster/offline"
	"github.com/planekit/planekit/plane/stack"
)

// mirrors says where the nodes' pulls go instead of the public registries; nil
// means to those.
func (c *cluster) mirrors(ctx context.Context, s *stack.Stack) (map[string]string, error) {
	if c.runtime == "fake" { // which pulls nothing
		return nil, nil
	}
	if at := c.options.joining.mirror; at != "" {
		return offline.Mirrors(at), nil
	}
	switch c.options.offlineImages {
	case "off":
		return nil, nil
	case "auto":
		if offline.Reachable(ctx, offline.PublicRegistry) {
			return nil, nil
		}
		c.log.Info("the public registry cannot be reached: serving pause, nginx and busybox from here", "registry", offline.PublicRegistry)
	}
	images, err := offline.New(offline.Config{Cache: c.options.imageCache, Listen: c.registryAddress(), Log: c.log.WithName("images")})
	if err != nil {
		return nil, err
	}
	s.Start("offline images", images.Run)
	return offline.Mirrors(images.URL()), nil
}

// registryAddress returns where the registry of offline images listens; empty means the loopback address.
func (c *cluster) registryAddress() string {
	if !c.gateway.IsValid() {
		return ""
	}
	return netip.AddrPortFrom(c.gateway, 0).String()
}
