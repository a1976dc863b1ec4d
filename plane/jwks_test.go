package plane_test

import (
	"encoding/json"
	"net/netip"
	"testing"

	"github.com/planekit/planekit/authn/serviceaccount"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/planetest"
)

// TestAddressOfKeys: a program that verifies tokens elsewhere finds the keys at the advertised address, as in Kubernetes.
func TestAddressOfKeys(t *testing.T) {
	for _, advertised := range []string{"", "192.0.2.7:6443", "[2001:db8::7]:443"} {
		p := planetest.Start(t, planetest.With(func(c *plane.Config) {
			if advertised != "" {
				c.Advertise = netip.MustParseAddrPort(advertised)
			}
		}))
		want := p.URL() + serviceaccount.JWKSPath
		if advertised != "" {
			want = "https://" + advertised + serviceaccount.JWKSPath
		}
		answer, err := p.Client().Do(t.Context(), client.Request{Path: serviceaccount.ConfigurationPath})
		var got struct {
			Keys string `json:"jwks_uri"`
		}
		if err != nil || json.Unmarshal(answer.Body, &got) != nil || got.Keys != want {
			t.Errorf("GET %s, advertised at %q = %s, %v, want the jwks_uri %s", serviceaccount.ConfigurationPath, advertised, answer.Body, err, want)
		}
	}
}
