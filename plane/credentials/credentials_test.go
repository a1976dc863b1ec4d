package credentials_test

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/pki"
	"github.com/planekit/planekit/plane/credentials"
)

func Example() {
	c, err := credentials.New("10.0.0.1")
	if err != nil {
		fmt.Println(err)
		return
	}
	kubeconfig := c.Kubeconfig("https://10.0.0.1:6443")
	fmt.Println(kubeconfig.Clusters[kubeconfig.CurrentContext].Server)
	fmt.Println(c.Admin.Certificate.Subject)
	// Output:
	// https://10.0.0.1:6443
	// CN=kubernetes-admin,O=system:masters
}

// TestHandshake connects as the administrator and by every name of the server.
func TestHandshake(t *testing.T) {
	c, err := credentials.New("10.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range append(credentials.Names(), "10.0.0.1") {
		state, err := handshake(c.ServerTLS(true), c.ClientTLS(c.Admin), name)
		if err != nil || len(state.PeerCertificates) != 1 || state.PeerCertificates[0].Subject.CommonName != credentials.Administrator {
			t.Errorf("handshake() for %s: %v, with %d peer certificates, want one, of %s",
				name, err, len(state.PeerCertificates), credentials.Administrator)
		}
	}
	if _, err := handshake(c.ServerTLS(true), c.ClientTLS(c.Admin), "elsewhere"); err == nil {
		t.Error("the server is believed to be elsewhere")
	}
	if c.ServerTLS(true).ClientCAs == nil || c.ServerTLS(false).ClientCAs != nil {
		t.Error("the server names the authorities that it believes without being asked to, or does not when asked")
	}
}

// handshake returns what the server knows of the client.
func handshake(server, client *tls.Config, name string) (tls.ConnectionState, error) {
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	client = client.Clone()
	client.ServerName = name
	ended := make(chan error, 1)
	go func() {
		err := tls.Client(near, client).Handshake()
		if err != nil {
			near.Close()
		}
		ended <- err
	}()
	server = server.Clone()
	server.SessionTicketsDisabled = true // the client reads none
	s := tls.Server(far, server)
	serverErr := s.Handshake()
	if err := <-ended; err != nil {
		return tls.ConnectionState{}, err
	}
	return s.ConnectionState(), serverErr
}

// TestAuthenticators asks each authenticator about the certificates of both authorities. It knows those
// of its own alone.
func TestAuthenticators(t *testing.T) {
	c, err := credentials.New()
	if err != nil {
		t.Fatal(err)
	}
	other, err := credentials.New()
	if err != nil {
		t.Fatal(err)
	}
	impostor, err := c.FrontProxy.Client("impostor", "somebody-else")
	if err != nil {
		t.Fatal(err)
	}
	clients, err := c.Clients()
	if err != nil {
		t.Fatal(err)
	}
	proxies, err := c.FrontProxies()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name           string
		pair           *pki.Pair
		client, spoken string // the users that the authenticators find; empty for none
	}{
		{"the administrator", c.Admin, credentials.Administrator, ""},
		{"the front proxy", c.FrontClient, "", "jane"},
		{"another name than the front proxy's", impostor, "", ""},
		{"the administrator of another control plane", other.Admin, "", ""},
		{"the front proxy of another control plane", other.FrontClient, "", ""},
	} {
		r := httptest.NewRequest(http.MethodGet, "https://localhost/api", http.NoBody)
		r.TLS.PeerCertificates = []*x509.Certificate{test.pair.Certificate}
		r.Header.Set("X-Remote-User", "jane")
		if got := authenticated(clients, r); got != test.client {
			t.Errorf("%s is the client %q, want %q", test.name, got, test.client)
		}
		if got := authenticated(proxies, r); got != test.spoken {
			t.Errorf("%s speaks for %q, want %q", test.name, got, test.spoken)
		}
	}
}

// authenticated returns the name of the user, or nothing if a does not know one.
func authenticated(a authn.Authenticator, r *http.Request) string {
	u, ok, err := a.Authenticate(r)
	if !ok || err != nil {
		return ""
	}
	return u.Name
}

// TestOpen keeps authorities and keys between two runs, for their owner alone.
func TestOpen(t *testing.T) {
	dir := t.TempDir()
	first, err := credentials.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	second, err := credentials.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, pair := range [][2]*pki.Authority{{first.Authority, second.Authority}, {first.FrontProxy, second.FrontProxy}} {
		if !bytes.Equal(pair[0].CertificatePEM, pair[1].CertificatePEM) {
			t.Error("an authority changed")
		}
	}
	if !first.AccountKey.(*ecdsa.PrivateKey).Equal(second.AccountKey) {
		t.Error("the key of accounts changed")
	}
	if first.Authority.Certificate.Equal(first.FrontProxy.Certificate) {
		t.Error("front proxies are signed by the authority of clients")
	}
	keys := 0
	err = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".key" {
			return err
		}
		keys++
		info, err := os.Stat(path)
		if err == nil && info.Mode().Perm() != 0o600 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return err
	})
	if err != nil || keys == 0 {
		t.Errorf("%d keys: %v", keys, err)
	}
}

// TestRenewedWhileServing: configurations that were made a year ago serve and show certificates that are
// valid now, to new connections.
func TestRenewedWhileServing(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		c, err := credentials.Open(dir, "10.0.0.1")
		if err != nil {
			t.Fatal(err)
		}
		pair, err := c.Authority.Client("apiserver-kubelet-client", "kube-apiserver-kubelet-client")
		if err != nil {
			t.Fatal(err)
		}
		var reports []string
		c.ReportTo(func(name string, _ time.Time, err error) {
			if reports = append(reports, name); err != nil {
				t.Error(err)
			}
		})
		server, admin, toKubelets := c.ServerTLS(true), c.ClientTLS(c.Admin), c.KubeletTLS(pair)
		node, err := c.Kubelets.Kubelet("n", "10.0.0.2")
		if err != nil {
			t.Fatal(err)
		}
		kubelet := &tls.Config{GetCertificate: node.Live().Certificate, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: c.Authority.Pool()}
		for _, age := range []time.Duration{0, 200, 340, 364, 1000} {
			time.Sleep(age * 24 * time.Hour)
			if state, err := handshake(server, admin, "10.0.0.1"); err != nil || state.PeerCertificates[0].Subject.CommonName != credentials.Administrator {
				t.Errorf("after %d more days: the administrator at the API server: %v", age, err)
			}
			if state, err := handshake(kubelet, toKubelets, "10.0.0.2"); err != nil || len(state.PeerCertificates) != 1 {
				t.Errorf("after %d more days: the API server at a kubelet: %v", age, err)
			}
		}
		for _, name := range []string{"apiserver", "admin", "apiserver-kubelet-client", "kubelet-n"} {
			if !slices.Contains(reports, name) {
				t.Errorf("%q were reported, want %s too", reports, name)
			}
		}
	})
}

// TestKubeletsApart: clients of the API server do not trust what a kubelet serves. The API server trusts
// that, and what the authority of clients signed for kubelets before they had one of their own.
func TestKubeletsApart(t *testing.T) {
	c, err := credentials.New("10.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	apart, err1 := c.Kubelets.Kubelet("n", "kubernetes.default.svc", "10.0.0.1")
	before, err2 := c.Authority.Kubelet("n", "10.0.0.1")
	if err := errors.Join(err1, err2); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name            string
		pair            *pki.Pair
		client, kubelet bool // who trusts it
	}{{"of the kubelets' authority", apart, false, true}, {"of the authority of clients", before, true, true}} {
		trusted := func(by *tls.Config) error {
			_, err := test.pair.Certificate.Verify(x509.VerifyOptions{Roots: by.RootCAs, DNSName: "10.0.0.1"})
			return err
		}
		if err := trusted(c.ClientTLS(c.Admin)); (err == nil) != test.client {
			t.Errorf("a client of the API server, to a certificate %s: %v, want success: %v", test.name, err, test.client)
		}
		if err := trusted(c.KubeletTLS(c.Admin)); (err == nil) != test.kubelet {
			t.Errorf("a client of kubelets, to a certificate %s: %v, want success: %v", test.name, err, test.kubelet)
		}
	}
}
