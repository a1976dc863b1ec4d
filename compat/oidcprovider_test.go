package compat

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zitadel/oidc/v3/pkg/op"
)

// callback is the URL to which the provider redirects users.
const callback = "https://kubectl.example.com/callback"

// A provider is an OpenID provider over TLS that can be up or down.
type provider struct {
	URL      string
	ClientID string
	people   *people
	up       atomic.Bool
	roots    *x509.CertPool
	// certificate is the provider's certificate with that of its authority.
	certificate *x509.Certificate
	client      *http.Client // follows no redirect
}

// gate closes connections while the provider is down.
type gate struct {
	net.Listener
	up *atomic.Bool
}

func (g gate) Accept() (net.Conn, error) {
	for {
		connection, err := g.Listener.Accept()
		if err != nil || g.up.Load() {
			return connection, err
		}
		connection.Close()
	}
}

func startProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{ClientID: "kubectl", people: newPeople("kubectl", "another"), roots: x509.NewCertPool()}
	p.up.Store(true)
	p.rotate(t)
	var library http.Handler
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { library.ServeHTTP(w, r) }))
	server.Listener = gate{server.Listener, &p.up}
	server.StartTLS()
	t.Cleanup(server.Close)
	p.URL = server.URL
	config := &op.Config{CodeMethodS256: true, AuthMethodPost: true, SupportedScopes: []string{"openid", "email", "groups"}}
	if _, err := rand.Read(config.CryptoKey[:]); err != nil {
		t.Fatal(err)
	}
	var err error
	silent := op.WithLogger(slog.New(slog.DiscardHandler))
	if library, err = op.NewProvider(config, p.people, op.StaticIssuer(server.URL), silent); err != nil {
		t.Fatal(err)
	}
	p.certificate = server.Certificate()
	p.roots.AddCert(p.certificate)
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: p.roots}, DisableKeepAlives: true}
	p.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return p
}

func (p *provider) Issuer() string { return p.URL }

// rotate replaces the provider's key.
func (p *provider) rotate(t *testing.T) {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p.people.mu.Lock()
	defer p.people.mu.Unlock()
	p.people.key = signingKey{id: rand.Text(), key: key}
}

// expired returns a token that expired an hour ago.
func (p *provider) expired(t *testing.T) string {
	t.Helper()
	p.people.tell(func(o *people) { o.life = -time.Hour })
	defer p.people.tell(func(o *people) { o.life = time.Hour })
	return p.login(t, p.ClientID)
}

// future returns a token that will be valid in ten minutes.
func (p *provider) future(t *testing.T) string {
	t.Helper()
	p.people.tell(func(o *people) { o.claims["nbf"] = time.Now().Add(10 * time.Minute).Unix() })
	defer p.people.tell(func(o *people) { delete(o.claims, "nbf") })
	return p.login(t, p.ClientID)
}

// login returns an ID token from the authorization code flow with PKCE (RFC 6749, section 4.1, and
// RFC 7636), for a client that reads the discovery document.
func (p *provider) login(t *testing.T, clientID string) string {
	t.Helper()
	var endpoints struct {
		Authorize string `json:"authorization_endpoint"`
		Token     string `json:"token_endpoint"`
	}
	p.decode(t, must(p.client.Get(p.URL+"/.well-known/openid-configuration")), &endpoints)
	verifier := rand.Text() + rand.Text()
	challenge := sha256.Sum256([]byte(verifier))
	page := p.sentTo(t, endpoints.Authorize+"?"+url.Values{
		"response_type": {"code"}, "client_id": {clientID}, "scope": {"openid email groups"}, "state": {"s"}, "redirect_uri": {callback},
		"code_challenge": {base64.RawURLEncoding.EncodeToString(challenge[:])}, "code_challenge_method": {"S256"},
	}.Encode())
	asked := page.Query().Get("request")
	if page.Path != loginPage || asked == "" {
		t.Fatalf("sent to %v to log in", page)
	}
	if err := p.people.logIn(asked); err != nil {
		t.Fatal(err)
	}
	back := p.sentTo(t, endpoints.Authorize+"/callback?id="+url.QueryEscape(asked))
	if !strings.HasPrefix(back.String(), callback+"?") || back.Query().Get("state") != "s" {
		t.Fatalf("sent back to %v", back)
	}
	grant := url.Values{"grant_type": {"authorization_code"}, "code": {back.Query().Get("code")}, "client_id": {clientID},
		"client_secret": {secret}, "redirect_uri": {callback}, "code_verifier": {verifier}}
	var answer struct {
		Token string `json:"id_token"`
	}
	p.decode(t, must(p.client.PostForm(endpoints.Token, grant)), &answer)
	if strings.Count(answer.Token, ".") != 2 {
		t.Fatal("no token")
	}
	return answer.Token
}

// sentTo returns the target of a redirect.
func (p *provider) sentTo(t *testing.T, page string) *url.URL {
	t.Helper()
	response := must(p.client.Get(page))(t)
	defer response.Body.Close()
	to, err := response.Location()
	if err != nil {
		body, _ := io.ReadAll(response.Body)
		t.Fatalf("GET %s answers %d %s, %v, want a redirect", page, response.StatusCode, body, err)
	}
	return to
}

func must[T any](value T, err error) func(*testing.T) T {
	return func(t *testing.T) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func (p *provider) decode(t *testing.T, get func(*testing.T) *http.Response, into any) {
	t.Helper()
	response := get(t)
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil || response.StatusCode != http.StatusOK {
		t.Fatalf("the provider answers %d %s, %v, want %d", response.StatusCode, data, err, http.StatusOK)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}

// TestProviderKeeps: the provider of these tests can refuse.
func TestProviderKeeps(t *testing.T) {
	p := startProvider(t)
	for name, grant := range map[string]url.Values{
		"a code that nobody has given": {"grant_type": {"authorization_code"}, "code": {"x"}, "client_id": {p.ClientID}, "client_secret": {secret}, "redirect_uri": {callback}},
		"a grant that there is not":    {"grant_type": {"password"}, "client_id": {p.ClientID}, "client_secret": {secret}},
	} {
		response := must(p.client.PostForm(p.URL+"/oauth/token", grant))(t)
		response.Body.Close()
		if response.StatusCode < 400 || response.StatusCode >= 500 {
			t.Errorf("%s: the provider answers %d, want a status from 400 to 499", name, response.StatusCode)
		}
	}
	if err := p.people.logIn("x"); !errors.Is(err, errUnknown) {
		t.Error(err)
	}
	if _, err := p.people.GetClientByClientID(context.Background(), "x"); !errors.Is(err, errUnknown) {
		t.Error(err)
	}
}
