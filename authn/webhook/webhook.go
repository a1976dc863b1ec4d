// Package webhook authenticates bearer tokens with a remote service through Kubernetes' TokenReview
// (https://kubernetes.io/docs/reference/access-authn-authz/authentication/#webhook-token-authentication),
// like kube-apiserver with --authentication-token-webhook-config-file.
//
//	tokens, err := webhook.New(webhook.Config{URL: "https://authn.example.com/", TLS: config})
//	chain := authn.Chain{certificates, tokens}
//
// A request without a bearer token is not mine. A token that the service does not authenticate is
// refused with [ErrRefused], and a later authenticator may still accept it. All other errors mean
// that the service did not give an answer. They must not be cached.
//
// A call is tried up to five times, with delays from half a second on, after failures that may be
// temporary: 429, 5xx, connection refused or lost. The context of the request ends the waiting.
// Redirects are not followed.
//
// Answers are not cached and concurrent calls not shared; use package tokencache for that.
// Authenticator starts no goroutines. Idle connections close after 90 seconds, or with Close.
package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/internal/webhook"
)

// Config configures the service, like the kubeconfig of kube-apiserver.
type Config struct {
	// URL is the URL for TokenReviews. It must be https, because they contain credentials.
	URL string
	// TLS has the trusted roots and the client certificate. Nil means the system's roots.
	TLS *tls.Config
	// Transport replaces connections made with TLS, which must then be nil.
	Transport http.RoundTripper
	// BearerToken, if not empty, authenticates this client to the service. It is not reviewed.
	BearerToken string
	// Timeout bounds one attempt. Zero means 3 seconds.
	Timeout time.Duration
	// Version is the version of the reviews, "v1" or "v1beta1", as in
	// --authentication-token-webhook-version. Empty means v1.
	Version string
	// Audiences holds the values of --api-audiences. A token must be meant for one of them if the context
	// of a request requires no others (see [authn.WithAudiences]), and it counts as meant for them
	// if the service does not return any. If Audiences is empty, audiences are checked only if the
	// context requires some.
	Audiences []string
}

// ErrRefused means that the service does not know the token.
var ErrRefused = errors.New("the webhook does not know the bearer token")

// Authenticator is an authn.Authenticator.
type Authenticator struct {
	service    *webhook.Service
	apiVersion string
	audiences  []string
}

// New returns an authenticator. It does not call the service.
func New(c Config) (*Authenticator, error) {
	switch c.Version {
	case "":
		c.Version = "v1"
	case "v1", "v1beta1":
	default:
		return nil, fmt.Errorf("authentication webhook: version %q is not v1 or v1beta1", c.Version)
	}
	service, err := webhook.New(webhook.Config{
		URL: c.URL, TLS: c.TLS, Transport: c.Transport, BearerToken: c.BearerToken, Timeout: c.Timeout,
	})
	if err != nil {
		return nil, fmt.Errorf("authentication webhook: %w", err)
	}
	return &Authenticator{service, "authentication.k8s.io/" + c.Version, slices.Clone(c.Audiences)}, nil
}

// Close closes the idle connections.
func (a *Authenticator) Close() { a.service.Close() }

// spec and status are the parts of a TokenReview.
type spec struct {
	Token     string   `json:"token"`
	Audiences []string `json:"audiences,omitempty"`
}

type status struct {
	Authenticated bool `json:"authenticated"`
	User          struct {
		Username string              `json:"username"`
		UID      string              `json:"uid"`
		Groups   []string            `json:"groups"`
		Extra    map[string][]string `json:"extra"`
	} `json:"user"`
	Audiences []string `json:"audiences"`
	Error     string   `json:"error"`
}

// Authenticate reviews the bearer token of r.
func (a *Authenticator) Authenticate(r *http.Request) (*user.Info, bool, error) {
	token, ok, err := authn.BearerToken(r)
	if err != nil || !ok {
		return nil, false, err
	}
	u, err := a.review(r.Context(), token)
	if err != nil && !errors.Is(err, ErrRefused) {
		err = fmt.Errorf("%w: %w", authn.ErrUnchecked, err)
	}
	return u, err == nil, err
}

func (a *Authenticator) review(ctx context.Context, token string) (*user.Info, error) {
	want, asked := authn.Audiences(ctx)
	if !asked {
		want = a.audiences
	}
	s, err := webhook.Ask[spec, status](ctx, a.service, a.apiVersion, "TokenReview", spec{token, want})
	switch {
	case err != nil:
		return nil, fmt.Errorf("authentication webhook: %w", err)
	case !s.Authenticated && s.Error != "":
		// The service may quote the token.
		return nil, fmt.Errorf("%w: %s", ErrRefused, strings.ReplaceAll(s.Error, token, "[token]"))
	case !s.Authenticated:
		return nil, ErrRefused
	case s.User.Username == "":
		return nil, errors.New("authentication webhook: the answer is a user without a name")
	case len(want) > 0 && !meet(want, s.Audiences) && (len(s.Audiences) > 0 || !meet(want, a.audiences)):
		return nil, fmt.Errorf("%w: it is meant for others", ErrRefused)
	}
	return &user.Info{Name: s.User.Username, UID: s.User.UID, Groups: s.User.Groups, Extra: s.User.Extra}, nil
}

func meet(a, b []string) bool {
	return slices.ContainsFunc(a, func(s string) bool { return slices.Contains(b, s) })
}
