package authn_test

import (
	"crypto/tls"
	stdx509 "crypto/x509"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/anonymous"
	"github.com/planekit/planekit/authn/internal/certtest"
	"github.com/planekit/planekit/authn/requestheader"
	"github.com/planekit/planekit/authn/tokenfile"
	"github.com/planekit/planekit/authn/x509"
)

// BenchmarkChain asks the usual authenticators about a request with a certificate,
// with a token, and with neither; and then the same behind a Handler.
func BenchmarkChain(b *testing.B) {
	clients, front := certtest.New(), certtest.New()
	chain := authn.Chain{
		must(requestheader.New(requestheader.Config{Roots: front.Pool, AllowedNames: []string{"proxy"}})),
		must(x509.New(x509.Config{Roots: clients.Pool})),
		must(tokenfile.Read([]byte("0123456789abcdef0123456789abcdef,robot,1,\"dev,ops\"\n"))),
		anonymous.Authenticator{},
	}
	request := func() *http.Request {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header = http.Header{"Accept": {"application/json"}, "User-Agent": {"test"}, "Accept-Encoding": {"gzip"}}
		return r
	}
	certificate, token := request(), request()
	certificate.TLS = &tls.ConnectionState{PeerCertificates: []*stdx509.Certificate{clients.Client("jane")}}
	token.Header.Set("Authorization", "Bearer 0123456789abcdef0123456789abcdef")
	served := authn.Handler(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), chain)
	for name, r := range map[string]*http.Request{"certificate": certificate, "token": token, "anonymous": request()} {
		b.Run("by="+name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, known, err := chain.Authenticate(r); !known {
					b.Fatal(err)
				}
			}
		})
		b.Run("by="+name+"/handler", func(b *testing.B) {
			w := httptest.NewRecorder()
			b.ReportAllocs()
			for b.Loop() {
				served.ServeHTTP(w, r)
			}
		})
	}
}
