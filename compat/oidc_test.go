package compat

import (
	"context"
	"crypto"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"
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

// logged collects all log entries of any verbosity.
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

// contains reports whether the log contains a token, by its signature.
func (l *logged) contains(token string) bool {
	_, rest, _ := strings.Cut(token, ".")
	payload, signature, _ := strings.Cut(rest, ".")
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.ContainsFunc(l.lines, func(line string) bool {
		return strings.Contains(line, payload) || len(signature) > 16 && strings.Contains(line, signature)
	})
}

// believing starts a server that trusts the issuers and allows every authenticated user to ask for
// its own identity.
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

// bearer returns a stock client that authenticates with a token only.
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

// refused fails the test unless the answer is 401.
func refused(t *testing.T, server *apiservertest.Server, name, token string) {
	t.Helper()
	if u, err := whoami(t, server, token); !apierrors.IsUnauthorized(err) {
		t.Errorf("%s: whoami = %s, %v, want Unauthorized", name, u.Username, err)
	}
}

// believed waits until the server accepts the token.
func believed(t *testing.T, server *apiservertest.Server, name, token string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	eventually(ctx, t, func() (bool, string) {
		_, err := whoami(t, server, token)
		return err == nil, fmt.Sprintf("%s: %v", name, err)
	})
}

// TestOIDC uses a real provider that is down at first, then up, and changes its key.
func TestOIDC(t *testing.T) {
	shows(t, "client-go", "tokens of an OpenID Connect issuer, and TokenReview")
	p, log := startProvider(t), &logged{}
	first := p.login(t, p.ClientID)
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
		t.Errorf("whoami = %+v, %v, want jane.doe@example.com in oidc:engineering, oidc:design, system:authenticated", u, err)
	}
	reviewed(t, server, first)

	parts := strings.Split(first, ".")
	unsigned := base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"none"}`)) + "." + parts[1] + "."
	expired, future := p.expired(t), p.future(t)
	for name, token := range map[string]string{"alg none": unsigned, "no signature": parts[0] + "." + parts[1] + ".", "expired": expired, "future nbf": future, "another client's": p.login(t, "another")} {
		refused(t, server, name, token)
		if log.contains(token) {
			t.Errorf("%s: the token is in the log", name)
		}
	}

	p.rotate(t)
	second := p.login(t, p.ClientID)
	believed(t, server, "the new key", second)
	refused(t, server, "the old key", first)
	if log.contains(first) || log.contains(second) {
		t.Error("tokens are in the log")
	}
}

// closed returns a channel that receives a value when the given one is closed.
func closed(c <-chan struct{}) <-chan bool {
	out := make(chan bool, 1)
	go func() {
		<-c
		out <- true
	}()
	return out
}

// reviewed reviews the token, as a component does that leaves tokens to the server.
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

// TestOIDCKubectlFake runs kubectl auth whoami with a token of the provider.
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
	program := filepath.Join(kubectl(t), "kubectl") // which may need a build
	run := func(token string) (string, error) {
		cmd := exec.CommandContext(bounded(t), program, "auth", "whoami", "-o", "json",
			"--server="+server.URL, "--certificate-authority="+authority, "--token="+token)
		cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "KUBECONFIG=")
		out, err := cmd.Output()
		var failed *exec.ExitError
		if errors.As(err, &failed) {
			return string(failed.Stderr), err
		}
		return string(out), err
	}
	out, err := run(p.login(t, p.ClientID))
	var answer authenticationv1.SelfSubjectReview
	if err != nil || json.Unmarshal([]byte(out), &answer) != nil {
		t.Fatalf("kubectl auth whoami: %s, %v, want a SelfSubjectReview", out, err)
	}
	if u := answer.Status.UserInfo; u.Username != p.Issuer()+"#1234567890" || !slices.Contains(u.Groups, "engineering") {
		t.Errorf("kubectl auth whoami says %+v, want %s#1234567890 in engineering", u, p.Issuer())
	}
	if out, err := run(p.expired(t)); err == nil || !strings.Contains(out, "Unauthorized") && !strings.Contains(out, "logged in") {
		t.Errorf("expired: %s, %v", out, err)
	}
}

// TestOIDCFederation: the service accounts of one cluster, whose tokens are signed with two kinds
// of keys, are users of another.
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
			t.Errorf("a token signed with %T: whoami = %+v, %v, want here:system:serviceaccount:shop:web", key, u, err)
		}
		g.Audiences = []string{issuing.URL}
		refused(t, server, "a token for the issuing cluster", must(signer.Sign(g))(t))
	}
}

// discoverers allows every user what Kubernetes' role system:service-account-issuer-discovery
// allows.
func discoverers(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
	if a.Verb == "get" && (a.Path == serviceaccount.ConfigurationPath || a.Path == serviceaccount.JWKSPath) {
		return authz.Allow, "", nil
	}
	return authz.NoOpinion, "", nil
}
