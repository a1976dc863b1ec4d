package main

import (
	"context"
	"net/http"
	"net/netip"
	"time"

	"github.com/planekit/planekit/examples/cluster/offline"
	"github.com/planekit/planekit/plane/stack"
)

const (
	publicRegistry = "https://registry-1.docker.io/v2/"
	// publicRegistryPatience is how long the public registry may take to answer
	// before it counts as out of reach.
	publicRegistryPatience = 2 * time.Second
)

// mirrors says where the nodes' pulls go instead of the public registries; nil
// means to those.
func (c *cluster) mirrors(ctx context.Context, s *stack.Stack) (map[string]string, error) {
	if at := c.options.joining.mirror; at != "" {
		return mirrorsAt(at), nil
	}
	switch c.options.offlineImages {
	case "off":
		return nil, nil
	case "auto":
		if reachable(ctx, publicRegistry) {
			return nil, nil
		}
		c.log.Info("the public registry cannot be reached: serving pause, nginx and busybox from here", "registry", publicRegistry)
	}
	images, err := offline.New(offline.Config{Cache: c.options.imageCache, Listen: c.registryAddress(), Log: c.log.WithName("images")})
	if err != nil {
		return nil, err
	}
	s.Start("offline images", images.Run)
	return mirrorsAt(images.URL()), nil
}

// registryAddress returns where the registry of offline images listens; empty means the loopback address.
func (c *cluster) registryAddress() string {
	if !c.gateway.IsValid() {
		return ""
	}
	return netip.AddrPortFrom(c.gateway, 0).String()
}

// mirrorsAt sends the pulls from the public registries to the one at url.
func mirrorsAt(url string) map[string]string {
	return map[string]string{"docker.io": url, "registry.k8s.io": url}
}

// reachable reports whether anything at all answers at url.
func reachable(ctx context.Context, url string) bool {
	ctx, cancel := context.WithTimeout(ctx, publicRegistryPatience)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return false
	}
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}}
	answer, err := client.Do(request)
	if err != nil {
		return false
	}
	answer.Body.Close()
	return true
}
