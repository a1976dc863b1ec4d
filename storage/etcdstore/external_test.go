package etcdstore_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/etcdstore"
	"github.com/planekit/planekit/storage/storagetest"
)

// An authority signs certificates.
type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	a := &authority{}
	certificate := a.issue(t, &x509.Certificate{
		Subject:               pkix.Name{CommonName: "authority"},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageCertSign,
	})
	a.certificate, a.key = certificate.Leaf, certificate.PrivateKey.(*ecdsa.PrivateKey)
	return a
}

// issue signs template; by itself if a has no key yet.
func (a *authority) issue(t testing.TB, template *x509.Certificate) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template.SerialNumber = big.NewInt(time.Now().UnixNano())
	template.NotBefore = time.Now().Add(-time.Hour)
	template.NotAfter = time.Now().Add(time.Hour)
	parent, signer := a.certificate, a.key
	if signer == nil {
		parent, signer = template, key
	}
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), signer)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: leaf}
}

// client returns what a client needs to be known to servers of a.
func (a *authority) client(t testing.TB) *tls.Config {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	certificate := a.issue(t, &x509.Certificate{
		Subject:     pkix.Name{CommonName: "planekit"},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	})
	return &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{certificate}}
}

// files writes a's certificate, and one for a server, to where etcd reads them.
func (a *authority) files(t testing.TB) transport.TLSInfo {
	t.Helper()
	server := a.issue(t, &x509.Certificate{
		Subject:     pkix.Name{CommonName: "etcd"},
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	})
	key, err := x509.MarshalECPrivateKey(server.PrivateKey.(*ecdsa.PrivateKey))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, kind string, der []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	return transport.TLSInfo{
		CertFile:       write("server.pem", "CERTIFICATE", server.Certificate[0]),
		KeyFile:        write("server.key", "EC PRIVATE KEY", key),
		TrustedCAFile:  write("ca.pem", "CERTIFICATE", a.certificate.Raw),
		ClientCertAuth: true,
	}
}

// listen runs an etcd on a loopback port that admits clients of a only, and
// returns its address.
func listen(t testing.TB, a *authority) string {
	t.Helper()
	config := embed.NewConfig()
	config.Dir = t.TempDir()
	config.ListenPeerUrls = []url.URL{{Scheme: "http", Host: "127.0.0.1:0"}}
	config.ListenClientUrls = []url.URL{{Scheme: "https", Host: "127.0.0.1:0"}}
	config.AdvertiseClientUrls = config.ListenClientUrls
	config.ClientTLSInfo = a.files(t)
	config.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	config.TickMs, config.ElectionMs = 20, 100
	etcd, err := embed.StartEtcd(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(etcd.Close)
	<-etcd.Server.ReadyNotify()
	return "https://" + etcd.Clients[0].Addr().String()
}

func TestExternal(t *testing.T) {
	a := newAuthority(t)
	client, err := etcdstore.Dial(t.Context(), etcdstore.DialConfig{
		Endpoints: []string{listen(t, a)}, TLS: a.client(t), Timeout: patience,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := client.Close(); err != nil {
			t.Error(err)
		}
	})
	storagetest.Run(t, stores(client, false))
}

// Fragments of one large response must come out as whole revisions.
func TestLargeReplay(t *testing.T) {
	a := newAuthority(t)
	client, err := etcdstore.Dial(t.Context(), etcdstore.DialConfig{
		Endpoints: []string{listen(t, a)}, TLS: a.client(t), Timeout: patience,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = client.Close() }()
	store := stores(client, false)(t)
	const size, count = 1 << 20, 12 // etcd's limit for one response is 1.5 MiB
	first, err := store.Commit(t.Context(), storage.Change{Key: "/large"})
	if err != nil {
		t.Fatal(err)
	}
	last := first
	for i := range count {
		value := make([]byte, size)
		value[0] = byte(i)
		last, err = store.Commit(t.Context(), storage.Change{Op: storage.Update, Key: "/large", Value: value, Previous: last.Revision})
		if err != nil {
			t.Fatal(err)
		}
	}
	watcher, err := store.Watch(t.Context(), "/", first.Revision)
	if err != nil {
		t.Fatal(err)
	}
	defer watcher.Close()
	for i := 0; i < count; {
		events, err := watcher.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, event := range events {
			if event.Record.Value[0] != byte(i) || len(event.Record.Value) != size {
				t.Fatalf("event %d is of change %d, %d bytes", i, event.Record.Value[0], len(event.Record.Value))
			}
			i++
		}
	}
}
