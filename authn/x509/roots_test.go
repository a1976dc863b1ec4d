package x509_test

import (
	"bytes"
	"crypto/tls"
	stdx509 "crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/internal/certtest"
	"github.com/planekit/planekit/authn/reload"
	"github.com/planekit/planekit/authn/user"
	clientcerts "github.com/planekit/planekit/authn/x509"
)

func TestParseRoots(t *testing.T) {
	a, b := certtest.New(), certtest.New()
	both := slicesOf(a.PEM(), []byte("a comment\n"), b.PEM())
	key := []byte("-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n")
	for name, test := range map[string]struct {
		file []byte
		want string // of the error
		n    int
	}{
		"two":             {file: both, n: 2},
		"with a key":      {file: slicesOf(key, a.PEM()), n: 1},
		"empty":           {want: "no certificate"},
		"only a key":      {file: key, want: "no certificate"},
		"garbage":         {file: []byte("hello"), want: "no certificate"},
		"cut off":         {file: both[:len(both)-30], want: "2 certificates begin, but only 1"},
		"cut in front":    {file: slicesOf(a.PEM()[:100], []byte("\n"), b.PEM()), want: "begin"},
		"not certificate": {file: bytes.ReplaceAll(key, []byte("PRIVATE KEY"), []byte("CERTIFICATE")), want: "certificate 1: "},
	} {
		pool, err := clientcerts.ParseRoots(test.file)
		if (err != nil) != (test.want != "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want %q", name, err, test.want)
			continue
		}
		if test.want == "" {
			want := stdx509.NewCertPool()
			for _, c := range []*certtest.Authority{a, b}[:test.n] {
				want.AddCert(c.Certificate)
			}
			if !pool.Equal(want) {
				t.Errorf("%s: other authorities than in the file", name)
			}
		}
	}
}

func slicesOf(parts ...[]byte) []byte { return bytes.Join(parts, nil) }

func FuzzParseRoots(f *testing.F) {
	f.Add(certtest.New().PEM())
	f.Add([]byte("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		pool, err := clientcerts.ParseRoots(file)
		if (pool == nil) != (err != nil) || pool != nil && pool.Equal(stdx509.NewCertPool()) {
			t.Errorf("ParseRoots(%q) = %v, %v, want either an error or a pool that is not empty", file, pool, err)
		}
	})
}

// TestReload: over one connection that stays open, requests are judged by the
// authorities of the moment, and an unreadable file changes nothing.
func TestReload(t *testing.T) {
	before, after := certtest.New(), certtest.New()
	var file atomic.Value
	file.Store(before.PEM())
	var unreadable atomic.Bool
	roots := must(reload.New(reload.Config[*stdx509.CertPool]{
		Read: func() ([]byte, error) {
			if unreadable.Load() {
				return nil, errors.New("permission denied")
			}
			return file.Load().([]byte), nil
		},
		Parse: clientcerts.ParseRoots,
	}))
	certificates := must(clientcerts.New(clientcerts.Config{CurrentRoots: roots.Current}))
	server := httptest.NewUnstartedServer(authn.Handler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		u, _ := user.FromContext(r.Context())
		io.WriteString(w, u.Name)
	}), authn.Chain{certificates}))
	server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	var connections atomic.Int32
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.StartTLS()
	defer server.Close()
	client := server.Client()
	client.Transport.(*http.Transport).TLSClientConfig.Certificates = []tls.Certificate{before.Issue(pkix.Name{CommonName: "jane"})}

	for step, want := range []struct {
		file       []byte
		unreadable bool
		failed     bool
		code       int
	}{
		{before.PEM(), false, false, 200},
		{before.PEM(), true, true, 200},
		{before.PEM()[:90], false, true, 200},
		{nil, false, true, 200},
		{after.PEM(), false, false, 401},
		{slicesOf(after.PEM(), before.PEM()), false, false, 200},
		{after.PEM(), false, false, 401},
	} {
		file.Store(want.file)
		unreadable.Store(want.unreadable)
		if err := roots.Reload(); (err != nil) != want.failed {
			t.Errorf("step %d: reload: %v", step, err)
		}
		for range 2 {
			response := must(client.Get(server.URL))
			body := string(must(io.ReadAll(response.Body)))
			response.Body.Close()
			if response.StatusCode != want.code || want.code == 200 && body != "jane" {
				t.Errorf("step %d: %d %s", step, response.StatusCode, body)
			}
		}
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections", n)
	}
}
