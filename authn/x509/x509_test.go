package x509_test

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/authn/internal/certtest"
	clientcerts "github.com/planekit/planekit/authn/x509"
)

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func request(chain ...*x509.Certificate) *http.Request {
	r := httptest.NewRequest("GET", "/", nil)
	r.TLS = &tls.ConnectionState{PeerCertificates: chain}
	return r
}

func Example() {
	ca := certtest.New()
	certificates, err := clientcerts.New(clientcerts.Config{Roots: ca.Pool})
	if err != nil {
		fmt.Println(err)
		return
	}
	jane := ca.Issue(pkix.Name{CommonName: "jane", Organization: []string{"dev"}}).Leaf
	u, known, err := certificates.Authenticate(request(jane))
	fmt.Println(u.Name, u.Groups, known, err)
	// Output: jane [dev] true <nil>
}

func TestAuthenticate(t *testing.T) {
	jane := pkix.Name{CommonName: "jane", Organization: []string{"dev", "ops"}}
	ca, other := certtest.New(), certtest.New()
	middle := ca.Under()
	a := must(clientcerts.New(clientcerts.Config{Roots: ca.Pool}))
	for name, test := range map[string]struct {
		request *http.Request
		known   bool
		refused bool
	}{
		"no TLS":         {request: httptest.NewRequest("GET", "/", nil)},
		"no certificate": {request: request()},
		"good":           {request: request(ca.Issue(jane).Leaf), known: true},
		"intermediate":   {request: request(middle.Issue(jane).Leaf, middle.Certificate), known: true},
		"missing middle": {request: request(middle.Issue(jane).Leaf), refused: true},
		"wrong CA":       {request: request(other.Issue(jane).Leaf), refused: true},
		"server only":    {request: request(ca.Issue(jane, certtest.Servers).Leaf), refused: true},
		"empty CN":       {request: request(ca.Issue(pkix.Name{Organization: []string{"dev"}}).Leaf), refused: true},
		"chain smuggled": {request: request(other.Issue(jane).Leaf, other.Certificate), refused: true},
	} {
		u, known, err := a.Authenticate(test.request)
		if known != test.known || (err != nil) != test.refused {
			t.Errorf("%s: known %v, error %v", name, known, err)
		}
		if known && (u.Name != "jane" || !slices.Equal(u.Groups, []string{"dev", "ops"})) {
			t.Errorf("%s: Authenticate = %+v, want jane with the groups dev and ops", name, u)
		}
	}
}

func TestExpiryIsCheckedOnEveryRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ca := certtest.New()
		a := must(clientcerts.New(clientcerts.Config{Roots: ca.Pool}))
		r := request(ca.Issue(pkix.Name{CommonName: "jane"}).Leaf)
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
	before, after := certtest.New(), certtest.New()
	roots := before.Pool
	a := must(clientcerts.New(clientcerts.Config{CurrentRoots: func() *x509.CertPool { return roots }}))
	r := request(before.Issue(pkix.Name{CommonName: "jane"}).Leaf)
	if _, known, err := a.Authenticate(r); !known {
		t.Error(err)
	}
	for _, roots = range []*x509.CertPool{after.Pool, nil} {
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
	ca := certtest.New()
	a := must(clientcerts.New(clientcerts.Config{Roots: ca.Pool}))
	r := request(ca.Issue(pkix.Name{CommonName: "jane"}).Leaf)
	b.ReportAllocs()
	for b.Loop() {
		if _, known, err := a.Authenticate(r); !known {
			b.Fatal(err)
		}
	}
}
