package x509_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"math/big"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	clientcerts "github.com/planekit/planekit/authn/x509"
)

// authority is a certificate authority of a test.
type authority struct {
	cert *x509.Certificate
	key  *ecdsa.PrivateKey
	pool *x509.CertPool
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func template(subject pkix.Name, usage ...x509.ExtKeyUsage) *x509.Certificate {
	return &x509.Certificate{
		SerialNumber: big.NewInt(1),
		Subject:      subject,
		NotBefore:    time.Now().Add(-time.Minute),
		NotAfter:     time.Now().Add(time.Hour),
		KeyUsage:     x509.KeyUsageDigitalSignature,
		ExtKeyUsage:  usage,
	}
}

func newAuthority(parent *authority) *authority {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	t := template(pkix.Name{CommonName: "ca"})
	t.IsCA, t.BasicConstraintsValid, t.KeyUsage = true, true, x509.KeyUsageCertSign
	signer, signerKey := t, key
	if parent != nil {
		signer, signerKey = parent.cert, parent.key
	}
	cert := must(x509.ParseCertificate(must(x509.CreateCertificate(rand.Reader, t, signer, &key.PublicKey, signerKey))))
	pool := x509.NewCertPool()
	pool.AddCert(cert)
	return &authority{cert: cert, key: key, pool: pool}
}

func (a *authority) issue(subject pkix.Name, usage ...x509.ExtKeyUsage) *x509.Certificate {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	der := must(x509.CreateCertificate(rand.Reader, template(subject, usage...), a.cert, &key.PublicKey, a.key))
	return must(x509.ParseCertificate(der))
}

func request(chain ...*x509.Certificate) *http.Request {
	r := httptest.NewRequest("GET", "/", nil)
	r.TLS = &tls.ConnectionState{PeerCertificates: chain}
	return r
}

func Example() {
	ca := newAuthority(nil)
	certificates, err := clientcerts.New(clientcerts.Config{Roots: ca.pool})
	if err != nil {
		fmt.Println(err)
		return
	}
	jane := ca.issue(pkix.Name{CommonName: "jane", Organization: []string{"dev"}}, x509.ExtKeyUsageClientAuth)
	u, known, err := certificates.Authenticate(request(jane))
	fmt.Println(u.Name, u.Groups, known, err)
	// Output: jane [dev] true <nil>
}

func TestAuthenticate(t *testing.T) {
	client := x509.ExtKeyUsageClientAuth
	jane := pkix.Name{CommonName: "jane", Organization: []string{"dev", "ops"}}
	ca, other := newAuthority(nil), newAuthority(nil)
	middle := newAuthority(ca)
	a := must(clientcerts.New(clientcerts.Config{Roots: ca.pool}))
	for name, test := range map[string]struct {
		request *http.Request
		known   bool
		refused bool
	}{
		"no TLS":         {request: httptest.NewRequest("GET", "/", nil)},
		"no certificate": {request: request()},
		"good":           {request: request(ca.issue(jane, client)), known: true},
		"intermediate":   {request: request(middle.issue(jane, client), middle.cert), known: true},
		"missing middle": {request: request(middle.issue(jane, client)), refused: true},
		"wrong CA":       {request: request(other.issue(jane, client)), refused: true},
		"server only":    {request: request(ca.issue(jane, x509.ExtKeyUsageServerAuth)), refused: true},
		"empty CN":       {request: request(ca.issue(pkix.Name{Organization: []string{"dev"}}, client)), refused: true},
		"chain smuggled": {request: request(other.issue(jane, client), other.cert), refused: true},
	} {
		u, known, err := a.Authenticate(test.request)
		if known != test.known || (err != nil) != test.refused {
			t.Errorf("%s: known %v, error %v", name, known, err)
		}
		if known && (u.Name != "jane" || !slices.Equal(u.Groups, []string{"dev", "ops"})) {
			t.Errorf("%s: %+v", name, u)
		}
	}
}

func TestExpiryIsCheckedOnEveryRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := newAuthority(nil)
		a := must(clientcerts.New(clientcerts.Config{Roots: ca.pool}))
		r := request(ca.issue(pkix.Name{CommonName: "jane"}, x509.ExtKeyUsageClientAuth))
		if _, known, err := a.Authenticate(r); !known {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Hour)
		var invalid x509.CertificateInvalidError
		if _, known, err := a.Authenticate(r); known || !errors.As(err, &invalid) || invalid.Reason != x509.Expired {
			t.Errorf("after expiry: known %v, error %v", known, err)
		}
	})
}

func TestCurrentRoots(t *testing.T) {
	before, after := newAuthority(nil), newAuthority(nil)
	roots := before.pool
	a := must(clientcerts.New(clientcerts.Config{CurrentRoots: func() *x509.CertPool { return roots }}))
	r := request(before.issue(pkix.Name{CommonName: "jane"}, x509.ExtKeyUsageClientAuth))
	if _, known, err := a.Authenticate(r); !known {
		t.Error(err)
	}
	for _, roots = range []*x509.CertPool{after.pool, nil} {
		if _, known, err := a.Authenticate(r); known || err == nil {
			t.Errorf("after the root went: known %v, error %v", known, err)
		}
	}
}

func TestNewRefuses(t *testing.T) {
	pool := x509.NewCertPool()
	for _, c := range []clientcerts.Config{{}, {Roots: pool, CurrentRoots: func() *x509.CertPool { return pool }}} {
		if _, err := clientcerts.New(c); err == nil {
			t.Errorf("%+v: no error", c)
		}
	}
}

func BenchmarkAuthenticate(b *testing.B) {
	ca := newAuthority(nil)
	a := must(clientcerts.New(clientcerts.Config{Roots: ca.pool}))
	r := request(ca.issue(pkix.Name{CommonName: "jane"}, x509.ExtKeyUsageClientAuth))
	b.ReportAllocs()
	for b.Loop() {
		if _, known, err := a.Authenticate(r); !known {
			b.Fatal(err)
		}
	}
}
