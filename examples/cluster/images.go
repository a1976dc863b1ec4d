package main

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"net/url"

	"github.com/planekit/planekit/examples/cluster/offline"
	"github.com/planekit/planekit/plane/stack"
)

// mirrors says where the nodes' pulls go instead of the public registries; nil
// means to those.
func (c *cluster) mirrors(ctx context.Context, s *stack.Stack) (map[string]string, error) {
	if c.runtime == "fake" { // which pulls nothing
		return nil, nil
	}
	if at := c.options.registryMirror; at != "" {
		if c.gateway.IsValid() && loopback(at) {
			return nil, fmt.Errorf("--registry-mirror %s: a machine has a loopback address of its own; name another address of this one, which is %v to machines, or use --machines=false", at, c.gateway)
		}
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

// checkMirror checks --registry-mirror.
func (o *options) checkMirror() error {
	if o.registryMirror == "" {
		return nil
	}
	at, err := url.Parse(o.registryMirror)
	switch {
	case err != nil || at.Scheme != "http" && at.Scheme != "https" || at.Host == "":
		return fmt.Errorf("--registry-mirror must be a URL such as http://10.0.0.1:5000, not %q", o.registryMirror)
	case o.containerdSocket != "":
		return errors.New("--containerd-socket and --registry-mirror exclude each other: that containerd has mirrors in its own configuration")
	case o.offlineImages == "on":
		return errors.New("--offline-images on and --registry-mirror exclude each other")
	}
	return nil
}

// loopback reports whether a URL leads to the machine on which it is used.
func loopback(at string) bool {
	u, err := url.Parse(at)
	if err != nil {
		return false
	}
	address, err := netip.ParseAddr(u.Hostname())
	return u.Hostname() == "localhost" || err == nil && address.IsLoopback()
}
