package kubeconfig_test

import (
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/pki"
)

// rotationServer answers with the serial number of the client's certificate. At /hold it sends a byte and
// waits for release.
func rotationServer(t *testing.T, authority *pki.Authority) (server *httptest.Server, release chan struct{}) {
	release = make(chan struct{})
	server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/hold" {
			w.Write([]byte("x"))
			w.(http.Flusher).Flush()
			<-release
		}
		fmt.Fprint(w, r.TLS.PeerCertificates[0].SerialNumber)
	}))
	serving, err := authority.Serving("server", "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	server.TLS = &tls.Config{ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authority.Pool(), Certificates: []tls.Certificate{serving.TLS()}}
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // of connections that are closed early
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	return server, release
}

// credentials are the files of a client's certificate.
type credentials struct {
	t                *testing.T
	authority        *pki.Authority
	certificate, key string
}

func (c *credentials) write(path string, data []byte) {
	c.t.Helper()
	if err := os.WriteFile(path+".new", data, 0o600); err != nil {
		c.t.Fatal(err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		c.t.Fatal(err)
	}
}

func (c *credentials) sign() *pki.Pair {
	c.t.Helper()
	pair, err := c.authority.Client("node", "system:node:n", "system:nodes")
	if err != nil {
		c.t.Fatal(err)
	}
	return pair
}

// rotate replaces the key first, and then the certificate, so that they do not match in between.
func (c *credentials) rotate() string {
	c.t.Helper()
	pair := c.sign()
	c.write(c.key, pair.KeyPEM)
	c.write(c.certificate, pair.CertificatePEM)
	return pair.Certificate.SerialNumber.String()
}

func newCredentials(t *testing.T) *credentials {
	authority, err := pki.New()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	return &credentials{t, authority, filepath.Join(dir, "client.crt"), filepath.Join(dir, "client.key")}
}

func (c *credentials) config(server *httptest.Server, failed func(error)) *kubeconfig.Config {
	return &kubeconfig.Config{
		CurrentContext: "c", Failed: failed,
		Clusters: map[string]kubeconfig.Cluster{"c": {Server: server.URL, CertificateAuthorityData: c.authority.CertificatePEM}},
		Users:    map[string]kubeconfig.User{"c": {ClientCertificate: c.certificate, ClientKey: c.key}},
		Contexts: map[string]kubeconfig.Context{"c": {Cluster: "c", User: "c"}},
	}
}

func ask(t *testing.T, api *client.Client) string {
	t.Helper()
	answer, err := api.Do(t.Context(), client.Request{Method: http.MethodGet, Path: "/"})
	if err != nil {
		t.Error(err)
		return ""
	}
	return string(answer.Body)
}

// TestClientCertificateRotates replaces a client's certificate while requests run. None of them fails,
// new connections present the new certificate at once, and those that are open are left.
func TestClientCertificateRotates(t *testing.T) {
	c := newCredentials(t)
	server, release := rotationServer(t, c.authority)
	first := c.rotate()
	config, _, err := c.config(server, nil).Client("")
	if err != nil {
		t.Fatal(err)
	}
	// The time between two looks at the files is not waited for.
	config.Certificate = client.Follow(func() *tls.Certificate {
		certificate, err := config.TLS.GetClientCertificate(nil)
		if err != nil {
			t.Error(err)
		}
		return certificate
	})
	api, err := client.New(config)
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	if got := ask(t, api); got != first {
		t.Fatalf("the server sees %s, want %s", got, first)
	}
	held, _, err := api.Stream(t.Context(), client.Request{Method: http.MethodGet, Path: "/hold"})
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	one := make([]byte, 1)
	if _, err := held.Read(one); err != nil {
		t.Fatal(err)
	}

	var stop atomic.Bool
	var clients sync.WaitGroup
	for range 4 {
		clients.Go(func() {
			for !stop.Load() && !t.Failed() {
				ask(t, api)
			}
		})
	}
	for range 10 {
		want := c.rotate()
		if got := ask(t, api); got != want {
			t.Errorf("after a rotation the server sees %s, want %s", got, want)
		}
	}
	stop.Store(true)
	clients.Wait()

	close(release)
	rest := make([]byte, 100)
	n, err := held.Read(rest)
	if string(rest[:n]) != first {
		t.Errorf("the open request ended with %q (%v), want %s", rest[:n], err, first)
	}
}

// TestBadClientCertificate: whatever is wrong with the files, the earlier certificate stays in use, and
// the error is reported once and names the files.
func TestBadClientCertificate(t *testing.T) {
	c := newCredentials(t)
	server, _ := rotationServer(t, c.authority)
	first := c.rotate()
	var failures []error
	config, _, err := c.config(server, func(err error) { failures = append(failures, err) }).Client("")
	if err != nil {
		t.Fatal(err)
	}
	other := c.sign()
	pipe := func(path string) {
		if err := errors.Join(os.Remove(path), syscall.Mkfifo(path, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct {
		name, want string
		do         func()
	}{
		{"a key of another certificate", "private key does not match public key", func() { c.write(c.key, other.KeyPEM) }},
		{"half a key", "failed to find any PEM data in key input", func() { c.write(c.key, other.KeyPEM[:len(other.KeyPEM)/2]) }},
		{"half a chain", "the last block is incomplete", func() {
			c.write(c.key, other.KeyPEM)
			c.write(c.certificate, append(other.CertificatePEM, c.authority.CertificatePEM[:100]...))
		}},
		{"no certificate", "no such file", func() { os.Remove(c.certificate) }},
		{"an empty certificate", "failed to find any PEM data in certificate input", func() { c.write(c.certificate, nil) }},
		{"a pipe", "not a regular file", func() { pipe(c.certificate) }},
		{"a large file", "more than", func() { c.write(c.certificate, make([]byte, 5<<20)) }},
	} {
		failures = nil
		test.do()
		for range 3 {
			used, err := config.TLS.GetClientCertificate(nil)
			if err != nil || used.Leaf.SerialNumber.String() != first {
				t.Errorf("%s: GetClientCertificate: %v, want no error and the certificate with the serial number %s", test.name, err, first)
			}
		}
		if len(failures) != 1 || !strings.Contains(failures[0].Error(), test.want) || !strings.Contains(failures[0].Error(), filepath.Dir(c.key)) {
			t.Errorf("%s: errors %v, want one with %q", test.name, failures, test.want)
		}
		if strings.Contains(fmt.Sprint(failures), "PRIVATE KEY") {
			t.Errorf("%s: %v quotes the key", test.name, failures)
		}
	}
	last := c.rotate()
	if used, err := config.TLS.GetClientCertificate(nil); err != nil || used.Leaf.SerialNumber.String() != last {
		t.Errorf("valid files are not used again: %v", err)
	}
	os.Remove(c.key)
	if _, _, err := c.config(server, nil).Client(""); err == nil || !strings.Contains(err.Error(), "client-key") {
		t.Errorf("a client without its key: %v", err)
	}
}
