package compat

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
	"github.com/oauth2-proxy/mockoidc"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/review"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/anonymous"
	"github.com/planekit/planekit/authn/oidc"
	"github.com/planekit/planekit/authn/serviceaccount"
	"github.com/planekit/planekit/authz"
	authenticationv1 "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// A provider is an OpenID provider over TLS, which can be up and down.
type provider struct {
	*mockoidc.MockOIDC
	mu     sync.Mutex // held by whatever the provider does or is told
	up     atomic.Bool
	roots  *x509.CertPool
	client *http.Client
}

// gate breaks connections off while the provider is down.
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
	certified := httptest.NewTLSServer(nil) // for its certificate
	certified.Close()
	p := &provider{roots: x509.NewCertPool()}
	p.roots.AddCert(certified.Certificate())
	p.up.Store(true)
	var err error
	if p.MockOIDC, err = mockoidc.NewServer(nil); err != nil {
		t.Fatal(err)
	}
	p.rotate(t)
	if err := p.AddMiddleware(p.exclusively); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	config := &tls.Config{Certificates: certified.TLS.Certificates}
	if err := p.Start(gate{tls.NewListener(listener, config), &p.up}, config); err != nil {
		t.Fatal(err)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: p.roots}, DisableKeepAlives: true}
	p.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	t.Cleanup(func() {
		if err := p.Shutdown(); err != nil {
			t.Error(err)
		}
	})
	return p
}

func (p *provider) exclusively(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		next.ServeHTTP(w, r)
	})
}

// rotate gives the provider another key; the old one is gone.
func (p *provider) rotate(t *testing.T) {
	t.Helper()
	pair, err := mockoidc.RandomKeypair(2048)
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.Keypair = pair
}

// skewed gets a token from a provider whose clock goes wrong by d.
func (p *provider) skewed(t *testing.T, d time.Duration) string {
	t.Helper()
	p.mu.Lock()
	p.FastForward(d)
	p.mu.Unlock()
	token := p.login(t)
	p.mu.Lock()
	p.FastForward(-d)
	p.mu.Unlock()
	return token
}

// login gets an ID token by the authorization code flow with PKCE (RFC 6749,
// section 4.1, and RFC 7636), as a client that reads the discovery document.
func (p *provider) login(t *testing.T) string {
	t.Helper()
	var endpoints struct {
		Authorize string `json:"authorization_endpoint"`
		Token     string `json:"token_endpoint"`
	}
	p.decode(t, must(p.client.Get(p.DiscoveryEndpoint())), &endpoints)
	verifier := rand.Text() + rand.Text()
	challenge, err := mockoidc.GenerateCodeChallenge(mockoidc.CodeChallengeMethodS256, verifier)
	if err != nil {
		t.Fatal(err)
	}
	p.mu.Lock()
	id, secret := p.ClientID, p.ClientSecret
	p.mu.Unlock()
	response := must(p.client.Get(endpoints.Authorize + "?" + url.Values{
		"response_type": {"code"}, "client_id": {id}, "scope": {"openid email groups"}, "state": {"s"},
		"redirect_uri": {"https://kubectl.example.com/callback"}, "code_challenge": {challenge}, "code_challenge_method": {"S256"},
	}.Encode()))(t)
	response.Body.Close()
	back, err := response.Location()
	if err != nil || back.Query().Get("state") != "s" {
		t.Fatalf("sent back to %v, %v", back, err)
	}
	var answer struct {
		Token string `json:"id_token"`
	}
	p.decode(t, must(p.client.PostForm(endpoints.Token, url.Values{
		"grant_type": {"authorization_code"}, "code": {back.Query().Get("code")}, "client_id": {id}, "client_secret": {secret}, "code_verifier": {verifier},
	})), &answer)
	if strings.Count(answer.Token, ".") != 2 {
		t.Fatal("no token")
	}
	return answer.Token
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
		t.Fatalf("%d %s, %v", response.StatusCode, data, err)
	}
	if err := json.Unmarshal(data, into); err != nil {
		t.Fatal(err)
	}
}

// logged collects everything that is logged, at any verbosity.
type logged struct {
	mu    sync.Mutex
	lines []string
}

func (l *logged) logger() logr.Logger {
	return funcr.New(func(prefix, line string) {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.lines = append(l.lines, prefix+line)
	}, funcr.Options{Verbosity: 100})
}

// contains looks for a token by its signature.
func (l *logged) contains(token string) bool {
	_, rest, _ := strings.Cut(token, ".")
	payload, signature, _ := strings.Cut(rest, ".")
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.lines, func(line string) bool {
		return strings.Contains(line, payload) || len(signature) > 16 && strings.Contains(line, signature)
	})
}

// believing starts a server which believes the issuers and lets everybody whom it
// knows ask who they are.
func believing(t *testing.T, log logr.Logger, issuers ...oidc.Issuer) (*apiservertest.Server, *oidc.Authenticator) {
	t.Helper()
	people, err := oidc.New(oidc.Config{Issuers: issuers, Log: log})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- people.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	chain := authn.Chain{people}
	anybody := authz.Func(func(context.Context, authz.Attributes) (authz.Decision, string, error) { return authz.Allow, "", nil })
	server := apiservertest.Start(t, apiservertest.WithAuthenticator(chain), apiservertest.WithAuthorizer(anybody),
		apiservertest.WithResources(review.Resources(chain, anybody, "https://api.example.com")...),
		apiservertest.WithConfig(func(c *apiserver.Config) { c.Log = log }))
	return server, people
}

// bearer is how a stock client asks with a token and nothing else.
func bearer(t *testing.T, server *apiservertest.Server, token string) *kubernetes.Clientset {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig(server.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	config = rest.AnonymousClientConfig(config)
	config.BearerToken = token
	return clientset(t, config)
}

func whoami(t *testing.T, server *apiservertest.Server, token string) (authenticationv1.UserInfo, error) {
	t.Helper()
	answer, err := bearer(t, server, token).AuthenticationV1().SelfSubjectReviews().Create(bounded(t), &authenticationv1.SelfSubjectReview{}, metav1.CreateOptions{})
	if err != nil {
		return authenticationv1.UserInfo{}, err
	}
	return answer.Status.UserInfo, nil
}

// refused wants 401.
func refused(t *testing.T, server *apiservertest.Server, name, token string) {
	t.Helper()
	if u, err := whoami(t, server, token); !apierrors.IsUnauthorized(err) {
		t.Errorf("%s: %s, %v", name, u.Username, err)
	}
}

// believed waits until the server knows the token.
func believed(t *testing.T, server *apiservertest.Server, name, token string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	eventually(ctx, t, func() (bool, string) {
		_, err := whoami(t, server, token)
		return err == nil, fmt.Sprintf("%s: %v", name, err)
	})
}

// TestOIDC: a real provider, which is down at first, then up, and changes its key.
func TestOIDC(t *testing.T) {
	shows(t, "client-go", "tokens of an OpenID Connect issuer, and TokenReview")
	p, log := startProvider(t), &logged{}
	first := p.login(t)
	p.up.Store(false)
	p.client.CloseIdleConnections()
	server, people := believing(t, log.logger(), oidc.Issuer{URL: p.Issuer(), ClientIDs: []string{p.ClientID}, Roots: p.roots,
		UsernameClaim: "email", GroupsClaim: "groups", GroupsPrefix: "oidc:"})
	refused(t, server, "the issuer is down", first)
	p.up.Store(true)
	believed(t, server, "the issuer is up", first)
	receive(t, closed(people.Ready()))

	u, err := whoami(t, server, first)
	if err != nil || u.Username != "jane.doe@example.com" || !slices.Equal(u.Groups, []string{"oidc:engineering", "oidc:design", "system:authenticated"}) {
		t.Errorf("%+v, %v", u, err)
	}
	reviewed(t, server, first)

	parts := strings.Split(first, ".")
	unsigned := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + parts[1] + "."
	expired, future := p.skewed(t, -time.Hour), p.skewed(t, 10*time.Minute)
	for name, token := range map[string]string{"alg none": unsigned, "no signature": parts[0] + "." + parts[1] + ".", "expired": expired, "future nbf": future, "another client's": otherClients(t, p)} {
		refused(t, server, name, token)
		if log.contains(token) {
			t.Errorf("%s: the token is in the log", name)
		}
	}

	p.rotate(t)
	second := p.login(t)
	believed(t, server, "the new key", second)
	refused(t, server, "the old key", first)
	if log.contains(first) || log.contains(second) {
		t.Error("tokens are in the log")
	}
}

// closed makes a channel that only closes one that something comes from.
func closed(c <-chan struct{}) <-chan bool {
	out := make(chan bool, 1)
	go func() {
		<-c
		out <- true
	}()
	return out
}

// otherClients is a token that another client has got.
func otherClients(t *testing.T, p *provider) string {
	t.Helper()
	p.mu.Lock()
	own := p.ClientID
	p.ClientID = "another"
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.ClientID = own
	}()
	return p.login(t)
}

// reviewed asks about the token as a component does that leaves tokens to the server.
func reviewed(t *testing.T, server *apiservertest.Server, token string) {
	t.Helper()
	reviews := bearer(t, server, server.Token).AuthenticationV1().TokenReviews()
	for _, test := range []struct{ asked, want []string }{
		{nil, []string{"https://api.example.com"}},
		{[]string{"vault", "https://api.example.com"}, []string{"https://api.example.com"}},
		{[]string{"vault"}, nil},
	} {
		answer, err := reviews.Create(bounded(t), &authenticationv1.TokenReview{Spec: authenticationv1.TokenReviewSpec{Token: token, Audiences: test.asked}}, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		s := answer.Status
		if s.Authenticated != (test.want != nil) || !slices.Equal(s.Audiences, test.want) || s.Authenticated != (s.User.Username == "jane.doe@example.com") {
			t.Errorf("asked for %v: %+v", test.asked, s)
		}
	}
}

// TestOIDCKubectlFake: kubectl auth whoami with a token of the provider.
func TestOIDCKubectlFake(t *testing.T) {
	shows(t, "kubectl", "tokens of an OpenID Connect issuer")
	p := startProvider(t)
	server, people := believing(t, logr.Discard(), oidc.Issuer{URL: p.Issuer(), ClientIDs: []string{p.ClientID}, Roots: p.roots, GroupsClaim: "groups"})
	receive(t, closed(people.Ready()))
	authority := filepath.Join(t.TempDir(), "ca.crt")
	if block, _ := pem.Decode(server.CA); block == nil {
		t.Fatal("no authority")
	}
	if err := os.WriteFile(authority, server.CA, 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(token string) (string, error) {
		cmd := exec.CommandContext(bounded(t), filepath.Join(kubectl(t), "kubectl"), "auth", "whoami", "-o", "json",
			"--server="+server.URL, "--certificate-authority="+authority, "--token="+token)
		cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "KUBECONFIG=")
		out, err := cmd.Output()
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			return string(failed.Stderr), err
		}
		return string(out), err
	}
	out, err := run(p.login(t))
	var answer authenticationv1.SelfSubjectReview
	if err != nil || json.Unmarshal([]byte(out), &answer) != nil {
		t.Fatalf("%s, %v", out, err)
	}
	if u := answer.Status.UserInfo; u.Username != p.Issuer()+"#1234567890" || !slices.Contains(u.Groups, "engineering") {
		t.Errorf("%+v", u)
	}
	if out, err := run(p.skewed(t, -time.Hour)); err == nil || !strings.Contains(out, "Unauthorized") && !strings.Contains(out, "logged in") {
		t.Errorf("expired: %s, %v", out, err)
	}
}

// TestOIDCFederation: the service accounts of one cluster, whose tokens are signed
// with keys of two kinds, are users of another.
func TestOIDCFederation(t *testing.T) {
	shows(t, "client-go", "tokens of another cluster's service accounts")
	small, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	large, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	keys, err := serviceaccount.NewKeySet(small.Public(), large.Public())
	if err != nil {
		t.Fatal(err)
	}
	issuing := apiservertest.Start(t, apiservertest.WithAuthenticator(anonymous.Authenticator{}),
		apiservertest.WithAuthorizer(authz.Func(discoverers)), apiservertest.WithConfig(func(c *apiserver.Config) {
			url := "https://" + c.Listener.Addr().String()
			c.Handlers = serviceaccount.Handlers(url, url+serviceaccount.JWKSPath, keys)
		}))
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(issuing.CA)
	server, people := believing(t, logr.Discard(), oidc.Issuer{URL: issuing.URL, ClientIDs: []string{"there"}, Roots: roots,
		UsernamePrefix: "here:", Algorithms: []string{"ES256", "RS256"}})
	receive(t, closed(people.Ready()))
	for _, key := range []crypto.Signer{small, large} {
		signer, err := serviceaccount.NewSigner(issuing.URL, key)
		if err != nil {
			t.Fatal(err)
		}
		g := serviceaccount.Grant{Namespace: "shop", Account: serviceaccount.Ref{Name: "web", UID: "17"}, Audiences: []string{"there"}, Life: time.Hour}
		u, err := whoami(t, server, must(signer.Sign(g))(t))
		if err != nil || u.Username != "here:system:serviceaccount:shop:web" {
			t.Errorf("%T: %+v, %v", key, u, err)
		}
		g.Audiences = []string{issuing.URL}
		refused(t, server, "a token for the issuing cluster", must(signer.Sign(g))(t))
	}
}

// discoverers lets everybody read what Kubernetes' role
// system:service-account-issuer-discovery does.
func discoverers(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
	if a.Verb == "get" && (a.Path == serviceaccount.ConfigurationPath || a.Path == serviceaccount.JWKSPath) {
		return authz.Allow, "", nil
	}
	return authz.NoOpinion, "", nil
}
