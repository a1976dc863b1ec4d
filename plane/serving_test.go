package plane_test

import (
	"crypto/tls"
	"net"
	"net/netip"
	"path/filepath"
	"testing"

	"github.com/planekit/planekit/pki"
	"github.com/planekit/planekit/pki/servingcert"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/credentials"
	"github.com/planekit/planekit/plane/planetest"
)

// TestServing: a plane serves the certificate of its Config where no pod comes, and its own with the names of
// the Config to pods.
func TestServing(t *testing.T) {
	dir := t.TempDir()
	corporate, err := pki.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	host := hostAddress(t)
	if _, err := corporate.Serving("tls", "api.example.com", "127.0.0.1", host.String()); err != nil {
		t.Fatal(err)
	}
	pair, err := servingcert.Open(servingcert.Files{Cert: filepath.Join(dir, "tls.crt"), Key: filepath.Join(dir, "tls.key")})
	if err != nil {
		t.Fatal(err)
	}
	keys, err := credentials.New("lb.example.com")
	if err != nil {
		t.Fatal(err)
	}
	if keys, err = keys.With(servingcert.Set{Default: pair}); err != nil {
		t.Fatal(err)
	}
	for _, advertised := range []bool{false, true} {
		listener, err := net.Listen("tcp", "0.0.0.0:0")
		if err != nil {
			t.Fatal(err)
		}
		port := listener.Addr().(*net.TCPAddr).AddrPort().Port()
		p := planetest.Start(t, planetest.With(func(c *plane.Config) {
			c.Listener, c.Serving, c.Names, c.Credentials = listener, servingcert.Set{Default: pair}, []string{"lb.example.com"}, nil
			if advertised { // and the certificates come with the credentials
				c.Advertise = netip.AddrPortFrom(host, port)
				c.Credentials, c.Serving, c.Names = keys, servingcert.Set{}, nil
			}
		}))
		for _, test := range []struct {
			name string
			at   netip.Addr
			own  bool
		}{
			{"api.example.com", host, false},
			{"lb.example.com", host, true},
			{"kubernetes.default.svc", host, true},
			{"", netip.MustParseAddr("127.0.0.1"), false},
			{"", host, advertised},
		} {
			roots := corporate.Pool()
			if test.own {
				roots = p.Credentials.Authority.Pool()
			}
			name := test.name
			if name == "" {
				name = test.at.String()
			}
			config := &tls.Config{ServerName: name, RootCAs: roots}
			if test.own && test.name == "" {
				config = &tls.Config{ServerName: name, InsecureSkipVerify: true, VerifyConnection: func(s tls.ConnectionState) error {
					return s.PeerCertificates[0].CheckSignatureFrom(p.Credentials.Authority.Certificate)
				}}
			}
			c, err := tls.Dial("tcp", netip.AddrPortFrom(test.at, port).String(), config)
			if err != nil {
				t.Errorf("advertised %v, the name %q at %v: %v, want the plane's own certificate: %v", advertised, test.name, test.at, err, test.own)
				continue
			}
			c.Close()
		}
	}
}
