package etcdstore

import (
	"crypto/tls"
	"net"
	"strings"
	"testing"
)

// FuzzEndpoint: an endpoint that is taken has a host and a port to connect to, and
// is never one in plain text where TLS was asked for, nor the reverse.
func FuzzEndpoint(f *testing.F) {
	for _, s := range []string{"https://10.0.0.1:2379", "http://[::1]:2379", "10.0.0.1:2379", "HTTP://a:1", "ftp://a:1", "https://a", "unix:///run/etcd.sock", "http://", ":", "https://a:1/path", "http://user@a:1", "%zz://"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, endpoint string) {
		for _, config := range []*tls.Config{nil, {}} {
			c := DialConfig{Endpoints: []string{endpoint}, TLS: config}
			if c.check() != nil {
				continue
			}
			host, err := c.host(endpoint)
			if err != nil {
				t.Fatalf("host(%q): %v", endpoint, err)
			}
			if _, _, err := net.SplitHostPort(host); err != nil {
				t.Errorf("SplitHostPort(%q) for the endpoint %q: %v", host, endpoint, err)
			}
			if plain := strings.HasPrefix(strings.ToLower(endpoint), "http://"); plain != (config == nil) {
				t.Errorf("%q is taken with TLS %v", endpoint, config != nil)
			}
		}
	})
}
