// Package apiservertest starts a whole API server inside a test.
//
//	func TestWidgets(t *testing.T) {
//		server := apiservertest.Start(t, apiservertest.WithResources(widgets))
//		response, err := server.Client().Get(server.URL + "/apis/example.com/v1/widgets")
//		...
//	}
//
// It is the real server over a store in memory, on a free port of the loopback
// address with a certificate of its own, ready within milliseconds and gone with
// the test. Any number may run side by side.
//
// [Server.Client] speaks TLS and HTTP/2 as an administrator. [Server.As] speaks
// through memory as any user. With the default authorizer only members of
// system:masters may do anything.
//
// Nothing is served but the resources that the test gives. Start fails the test
// where the server cannot start; there is no error to handle.
package apiservertest

import (
	"context"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/storage/memstore"
)

// Server is a running API server.
type Server struct {
	*apiserver.Server
	// URL is such as "https://127.0.0.1:41234".
	URL string
	// CA is the PEM certificate that clients must trust.
	CA []byte
	// Token is the administrator's bearer token.
	Token string

	client *http.Client
}

// An Option changes the configuration of the server before it starts.
type Option func(*apiserver.Config)

// WithResources adds resources to those that are served.
func WithResources(resources ...apiserver.Resource) Option {
	return func(c *apiserver.Config) { c.Resources = append(c.Resources, resources...) }
}

// WithAuthorizer replaces the authorizer, which allows system:masters
// everything and others nothing.
func WithAuthorizer(a authz.Authorizer) Option {
	return func(c *apiserver.Config) { c.Authorizer = a }
}

// WithAuthenticator asks a about requests which do not carry the
// administrator's token.
func WithAuthenticator(a authn.Authenticator) Option {
	return func(c *apiserver.Config) { c.Authenticator = either{c.Authenticator, a} }
}

// WithAdmission sets the admission chain; without it everything is admitted.
func WithAdmission(a apiserver.Admission) Option {
	return func(c *apiserver.Config) { c.Admission = a }
}

// WithConfig changes anything else.
func WithConfig(change func(*apiserver.Config)) Option { return change }

// Start starts a server and stops it when the test ends.
func Start(t testing.TB, options ...Option) *Server {
	t.Helper()
	certificate, ca, err := newCertificate(time.Now())
	if err != nil {
		t.Fatalf("apiservertest: %v", err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatalf("apiservertest: %v", err)
	}
	s := &Server{URL: "https://" + listener.Addr().String(), CA: ca, Token: rand.Text()}
	config := apiserver.Config{
		Store:         memstore.New(),
		Authenticator: authn.Func(s.authenticate),
		Authorizer:    authz.Func(mastersOnly),
		Listener:      listener,
		TLS:           &tls.Config{Certificates: []tls.Certificate{certificate}},
	}
	for _, option := range options {
		option(&config)
	}
	s.Server, err = apiserver.New(config)
	if err != nil {
		listener.Close()
		t.Fatalf("apiservertest: %v", err)
	}
	s.client = s.newClient()
	s.run(t)
	return s
}

// run serves until the test ends, and waits for the end.
func (s *Server) run(t testing.TB) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	<-s.Ready()
	t.Cleanup(func() {
		s.client.CloseIdleConnections()
		cancel()
		if err := <-done; err != nil {
			t.Errorf("apiservertest: %v", err)
		}
	})
}

func (s *Server) newClient() *http.Client {
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(s.CA)
	return &http.Client{Transport: &bearer{
		token: s.Token,
		next:  &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true},
	}}
}

// Client returns a client over the wire with the administrator's token.
func (s *Server) Client() *http.Client { return s.client }

// Anonymous returns a client over the wire without credentials.
func (s *Server) Anonymous() *http.Client {
	return &http.Client{Transport: s.client.Transport.(*bearer).next}
}

// As returns a client through memory which speaks for the named user.
func (s *Server) As(name string, groups ...string) *http.Client {
	return &http.Client{Transport: s.Transport(&user.Info{Name: name, Groups: groups})}
}

// Kubeconfig returns a configuration with which kubectl reaches the server as
// its administrator.
func (s *Server) Kubeconfig() []byte {
	return fmt.Appendf(nil, `apiVersion: v1
kind: Config
current-context: test
clusters:
- name: test
  cluster:
    server: %s
    certificate-authority-data: %s
users:
- name: admin
  user:
    token: %s
contexts:
- name: test
  context: {cluster: test, user: admin}
`, s.URL, base64.StdEncoding.EncodeToString(s.CA), s.Token)
}

func (s *Server) authenticate(r *http.Request) (*user.Info, bool, error) {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !ok || subtle.ConstantTimeCompare([]byte(token), []byte(s.Token)) != 1 {
		return nil, false, nil
	}
	return &user.Info{Name: "admin", Groups: []string{user.Masters, user.Authenticated}}, true, nil
}

func mastersOnly(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
	if a.User.In(user.Masters) {
		return authz.Allow, "", nil
	}
	return authz.NoOpinion, "", nil
}

// either asks one authenticator after the other.
type either [2]authn.Authenticator

func (e either) Authenticate(r *http.Request) (*user.Info, bool, error) {
	if u, ok, err := e[0].Authenticate(r); ok || err != nil {
		return u, ok, err
	}
	return e[1].Authenticate(r)
}

// bearer adds a token to every request.
type bearer struct {
	token string
	next  *http.Transport
}

func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.next.RoundTrip(r)
}

// CloseIdleConnections lets http.Client reach the transport below.
func (b *bearer) CloseIdleConnections() { b.next.CloseIdleConnections() }
