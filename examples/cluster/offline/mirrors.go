package offline

import (
	"context"
	"net/http"
	"time"
)

// PublicRegistry is the address of the registry that nodes pull from by default.
const PublicRegistry = "https://registry-1.docker.io/v2/"

// reachPatience is how long a registry may take to answer before it counts as out of
// reach.
const reachPatience = 2 * time.Second

// Reachable reports whether anything at all answers at url within two seconds.
func Reachable(ctx context.Context, url string) bool {
	ctx, cancel := context.WithTimeout(ctx, reachPatience)
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

// Mirrors sends the pulls from the public registries to the one at url: it returns the URLs to pull from by the names
// of registries.
func Mirrors(url string) map[string]string {
	return map[string]string{"docker.io": url, "registry.k8s.io": url}
}
