package authn_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/anonymous"
	"github.com/planekit/planekit/authn/basicauth"
	"github.com/planekit/planekit/authn/bootstraptoken"
	"github.com/planekit/planekit/authn/internal/certtest"
	"github.com/planekit/planekit/authn/requestheader"
	"github.com/planekit/planekit/authn/serviceaccount"
	"github.com/planekit/planekit/authn/tokencache"
	"github.com/planekit/planekit/authn/tokenfile"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authn/x509"
)

// journal keeps everything that is logged.
type journal struct {
	mu   sync.Mutex
	text strings.Builder
}

func (j *journal) write(prefix, line string) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.text.WriteString(prefix + " " + line + "\n")
}

func (j *journal) String() string {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.String()
}

// everyAuthenticator is a chain of all, which fail in every way that they can. One
// panics with the token in its hands, one says that it could not be reached.
func everyAuthenticator(log *journal) authn.Chain {
	key := must(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))
	gone := func(context.Context, string, string, string) (serviceaccount.Object, bool, error) {
		return serviceaccount.Object{}, false, nil
	}
	panics := authn.Func(func(r *http.Request) (*user.Info, bool, error) { panic(r.Header) })
	accounts := must(serviceaccount.New(serviceaccount.Config{
		Issuers: []string{"https://issuer"}, Audiences: []string{"api"}, Keys: must(serviceaccount.NewKeySet(key.Public())), Accounts: gone,
	}))
	secret := func(context.Context, string, string) (bootstraptoken.Secret, bool, error) {
		return bootstraptoken.Secret{Type: bootstraptoken.SecretType, Data: map[string][]byte{
			"token-id": []byte("abcdef"), "token-secret": []byte("kept1kept1kept12"), "expiration": []byte("s3cret"),
		}}, true, nil
	}
	return authn.Chain{
		must(requestheader.New(requestheader.Config{Roots: certtest.New().Pool, AllowedNames: []string{"proxy"}})),
		must(x509.New(x509.Config{Roots: certtest.New().Pool})),
		must(tokenfile.Read([]byte("kept1-token,robot,1\n"))),
		must(basicauth.Read([]byte("kept1-password,jane,2\n"))),
		accounts,
		must(bootstraptoken.New(bootstraptoken.Config{Secrets: secret})),
		must(bootstraptoken.New(bootstraptoken.Config{Secrets: func(context.Context, string, string) (bootstraptoken.Secret, bool, error) {
			return bootstraptoken.Secret{}, false, errors.New("storage is down")
		}})),
		must(tokencache.New(tokencache.Config{Authenticator: panics, Panicked: func(stack []byte) { log.write("panicked", string(stack)) }})),
		anonymous.Authenticator{},
	}
}

// TestNoCredentialIsLogged serves with every authenticator failing and everything
// logged, and looks for the credentials in the log and in the answers.
func TestNoCredentialIsLogged(t *testing.T) {
	log := &journal{}
	s := apiservertest.Start(t, apiservertest.WithConfig(func(c *apiserver.Config) {
		c.Log = funcr.New(log.write, funcr.Options{Verbosity: 1 << 30, LogCaller: funcr.All})
		c.Authenticator = everyAuthenticator(log)
		c.TLS.ClientAuth = tls.RequestClientCert
	}))
	jwt := func(claims string) string {
		part := base64.RawURLEncoding.EncodeToString
		return part([]byte(`{"alg":"ES256","typ":"JWT","kid":"s3cret"}`)) + "." + part([]byte(claims)) + ".c2lnbmF0dXJl"
	}
	stranger := certtest.New().Issue(certtest.Named("s3cret-name-is-no-secret"))
	basic := base64.StdEncoding.EncodeToString([]byte("jane:s3cret"))
	secrets := []string{"kept1", basic, "s3cret-token", "s3cr3ts3cr3t0123", jwt("{}"), jwt(`{"iss":"https://issuer"}`), "c2lnbmF0dXJl"}
	for _, headers := range []http.Header{
		{"Authorization": {"Bearer s3cret-token"}}, {"Authorization": {"Bearer s3cret-token", "Bearer s3cret-token"}},
		{"Authorization": {"Basic " + basic}}, {"Authorization": {"Basic s3cret-token"}}, {"Authorization": {"s3cret-token"}},
		{"Authorization": {"Bearer abcdef.s3cr3ts3cr3t0123"}}, {"Authorization": {"Bearer abcdef.kept1kept1kept12"}},
		{"Authorization": {"Bearer " + jwt("{}")}}, {"Authorization": {"Bearer " + jwt(`{"iss":"https://issuer"}`)}},
		{"X-Remote-User": {"root"}, "Authorization": {"Bearer s3cret-token"}},
	} {
		for _, certificates := range [][]tls.Certificate{nil, {stranger}} {
			transport := s.Anonymous().Transport.(*http.Transport).Clone()
			transport.TLSClientConfig.Certificates = certificates
			r := must(http.NewRequestWithContext(t.Context(), "GET", s.URL+"/api/v1/namespaces", nil))
			r.Header = headers
			response := must((&http.Client{Transport: transport}).Do(r))
			body := string(must(io.ReadAll(response.Body)))
			response.Body.Close()
			transport.CloseIdleConnections()
			if response.StatusCode != 401 {
				t.Errorf("GET with %v and %d certificates = %s, want 401", headers, len(certificates), response.Status)
			}
			for _, secret := range secrets {
				if strings.Contains(body, secret) {
					t.Errorf("%v: the answer has %s", headers, secret)
				}
			}
		}
	}
	logged := log.String()
	for _, secret := range secrets {
		if strings.Contains(logged, secret) {
			t.Errorf("%s was logged:\n%s", secret, logged)
		}
	}
	for _, said := range []string{
		"unknown bearer token", "unknown user or wrong password", "malformed basic", "more than one Authorization", "cannot be read", "another secret part",
		"storage is down", "the authenticator panicked", "signed by unknown authority", "the signature is not that of a known key", "panicked goroutine",
	} {
		if !strings.Contains(logged, said) {
			t.Errorf("nothing failed with %q:\n%s", said, logged)
		}
	}
}
