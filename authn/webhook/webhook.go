// Package webhook asks a remote service whom a bearer token stands for, by
// Kubernetes' TokenReview
// (https://kubernetes.io/docs/reference/access-authn-authz/authentication/#webhook-token-authentication):
// what kube-apiserver does with --authentication-token-webhook-config-file.
//
//	tokens, err := webhook.New(webhook.Config{URL: "https://authn.example.com/", TLS: config})
//	chain := authn.Chain{certificates, tokens}
//
// A request without a bearer token is not mine. A token that the service does
// not authenticate is refused with [ErrRefused], and a later authenticator may
// still know it. All other errors mean that the service could not be asked or
// gave no answer: they say nothing of the token and must not be remembered.
//
// A failing service is asked up to five times, with pauses from half a second
// on, if the failure may pass by itself: 429, 5xx, a connection refused or lost.
// The context of the request ends the waiting. Redirects are not followed.
//
// Every call asks: a cache and the sharing of equal questions are for something
// in front of it. Authenticator starts no goroutines; the connections it keeps
// open for the next question end after 90 seconds, or with Close.
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

// Config says where the service is: what kube-apiserver reads from a kubeconfig.
type Config struct {
	// URL is where TokenReviews are posted to. It must be https: they carry
	// credentials.
	URL string
	// TLS has the roots to believe and the client certificate to show. Nil
	// believes the system's roots.
	TLS *tls.Config
	// Transport carries the requests in place of connections made with TLS, which
	// must be nil then.
	Transport http.RoundTripper
	// BearerToken, if not empty, is how one is known to the service. It is not a
	// token to be reviewed.
	BearerToken string
	// Timeout is for one attempt. Zero is 3 seconds.
	Timeout time.Duration
	// Version is that of the reviews, "v1" or "v1beta1", as in
	// --authentication-token-webhook-version. Empty is v1.
	Version string
	// Audiences are what a token must be meant for when the context of a request
	// does not say (see [authn.WithAudiences]), and what it is meant for when the
	// service does not say: those of --api-audiences. Without any the audience
	// counts only where a context asks.
	Audiences []string
}

// ErrRefused says that the service was asked and does not know the token.
var ErrRefused = errors.New("the webhook does not know the bearer token")

// Authenticator is an authn.Authenticator.
type Authenticator struct {
	service    *webhook.Service
	apiVersion string
	audiences  []string
}

// New checks c and asks nothing yet.
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

// Close closes the connections that are kept for the next question.
func (a *Authenticator) Close() { a.service.Close() }

// spec and status are those of a TokenReview.
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

// Authenticate asks for the bearer token of r.
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
		// The service may quote what it was asked.
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
