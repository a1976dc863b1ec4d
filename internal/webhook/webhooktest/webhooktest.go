// Package webhooktest provides a webhook service for tests. It uses TLS with an authority of its
// own and accepts only clients with a certificate of that authority.
package webhooktest

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"
)

// Caller is the common name of the clients' certificate.
const Caller = "apiserver"

// Server is a service that runs until the test ends.
type Server struct {
	URL string
	// TLS configures a client: the authority and a certificate of it.
	TLS *tls.Config
	// Roots holds only the authority.
	Roots *x509.CertPool
	// Connections counts the connections of clients, whether or not they trust the server.
	Connections *atomic.Int64
}

// Start serves h over HTTP/2 and HTTP/1.1.
func Start(t testing.TB, h http.Handler) *Server {
	t.Helper()
	a := newAuthority(t)
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.Config.ErrorLog = log.New(io.Discard, "", 0) // tests cause failed handshakes
	s.TLS = &tls.Config{
		Certificates: []tls.Certificate{a.issue(t, "webhook", x509.ExtKeyUsageServerAuth)},
		ClientAuth:   tls.RequireAndVerifyClientCert,
		ClientCAs:    a.pool(),
	}
	connections := new(atomic.Int64)
	s.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return &Server{
		URL: s.URL + "/review", Roots: a.pool(), Connections: connections,
		TLS: &tls.Config{
			RootCAs: a.pool(), MinVersion: tls.VersionTLS12,
			Certificates: []tls.Certificate{a.issue(t, Caller, x509.ExtKeyUsageClientAuth)},
		},
	}
}

// Asked reports whether a request is a valid question: a POST of JSON from a known client.
func Asked(r *http.Request) bool {
	return r.Method == http.MethodPost && r.Header.Get("Content-Type") == "application/json" &&
		len(r.TLS.PeerCertificates) > 0 && r.TLS.PeerCertificates[0].Subject.CommonName == Caller
}

type authority struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

func newAuthority(t testing.TB) *authority {
	t.Helper()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "authority"}, NotAfter: time.Now().Add(time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign,
	}
	key := newKey(t)
	return &authority{sign(t, template, template, key, key), key}
}

func (a *authority) pool() *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(a.certificate)
	return pool
}

func (a *authority) issue(t testing.TB, name string, usage x509.ExtKeyUsage) tls.Certificate {
	t.Helper()
	key := newKey(t)
	certificate := sign(t, &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: name}, NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{usage}, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}, a.certificate, key, a.key)
	return tls.Certificate{Certificate: [][]byte{certificate.Raw}, PrivateKey: key}
}

func newKey(t testing.TB) *ecdsa.PrivateKey {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func sign(t testing.TB, template, parent *x509.Certificate, key, parentKey *ecdsa.PrivateKey) *x509.Certificate {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, template, parent, key.Public(), parentKey)
	if err != nil {
		t.Fatal(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	return certificate
}
