// Package webhook asks a remote service for decisions through Kubernetes' SubjectAccessReview
// (https://kubernetes.io/docs/reference/access-authn-authz/webhook/), like kube-apiserver with
// --authorization-webhook-config-file.
//
//	remote, err := webhook.New(webhook.Config{URL: "https://authz.example.com/authorize", TLS: config})
//	may := authz.Chain{authz.Superusers(user.Masters), roles, remote}
//
// An Allow is cached for five minutes, other answers for half a minute, for exactly the same user,
// UID, groups in order, extra and attributes. So a decision may be that old. The cache holds 8192
// answers and evicts the least recently used one. Questions of 10,000 bytes and more are not
// cached, as in kube-apiserver. Concurrent equal questions share a call. Failures are not cached.
//
// The service may allow, deny, or do neither, which is NoOpinion. Both at once is Deny with an
// error. If the service gives no answer, the decision is Config.OnFailure with an error. A call is
// tried up to five times, with delays from half a second on, after failures that may be temporary:
// 429, 5xx, connection refused or lost. The context of the decision ends the waiting. Redirects are
// not followed.
//
// Authorizer starts no goroutines. Idle connections close after 90 seconds, or with Close. Field
// and label selectors are not sent: the service decides on the whole resource.
package webhook

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"hash/maphash"
	"net/http"
	"sync"
	"time"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/internal/webhook"
)

// How long answers are cached by default, as in kube-apiserver.
const (
	DefaultAuthorizedTTL   = 5 * time.Minute
	DefaultUnauthorizedTTL = 30 * time.Second
)

// Config configures the service, like the kubeconfig and flags of kube-apiserver.
type Config struct {
	// URL is the URL for SubjectAccessReviews. It must be https.
	URL string
	// TLS has the trusted roots and the client certificate. Nil means the system's roots.
	TLS *tls.Config
	// Transport replaces connections made with TLS, which must then be nil.
	Transport http.RoundTripper
	// BearerToken, if not empty, authenticates this client to the service.
	BearerToken string
	// Timeout bounds one attempt. Zero means 3 seconds.
	Timeout time.Duration
	// Version is the version of the reviews, "v1" or "v1beta1", as in
	// --authorization-webhook-version. Empty means v1.
	Version string
	// AuthorizedTTL and UnauthorizedTTL are how long Allow and all other answers are cached. Zero
	// means the defaults above; a negative value disables caching.
	AuthorizedTTL, UnauthorizedTTL time.Duration
	// OnFailure is the decision when there is no answer: Deny, or NoOpinion, which lets a chain ask
	// the next authorizer.
	OnFailure authz.Decision
}

// Authorizer is an authz.Authorizer.
type Authorizer struct {
	service    *webhook.Service
	config     Config
	apiVersion string
	seed       maphash.Seed

	mu      sync.Mutex
	answers cache                // guarded by mu
	flights map[uint64]*question // guarded by mu; calls in progress
}

// New returns an authorizer. It does not call the service.
func New(c Config) (*Authorizer, error) {
	switch c.Version {
	case "":
		c.Version = "v1"
	case "v1", "v1beta1":
	default:
		return nil, fmt.Errorf("authorization webhook: version %q is not v1 or v1beta1", c.Version)
	}
	if c.OnFailure != authz.NoOpinion && c.OnFailure != authz.Deny {
		return nil, errors.New("authorization webhook: a failure may be no opinion or deny only")
	}
	service, err := webhook.New(webhook.Config{
		URL: c.URL, TLS: c.TLS, Transport: c.Transport, BearerToken: c.BearerToken, Timeout: c.Timeout,
	})
	if err != nil {
		return nil, fmt.Errorf("authorization webhook: %w", err)
	}
	if c.AuthorizedTTL == 0 {
		c.AuthorizedTTL = DefaultAuthorizedTTL
	}
	if c.UnauthorizedTTL == 0 {
		c.UnauthorizedTTL = DefaultUnauthorizedTTL
	}
	return &Authorizer{
		service: service, config: c, apiVersion: "authorization.k8s.io/" + c.Version, seed: maphash.MakeSeed(),
		answers: newCache(), flights: map[uint64]*question{},
	}, nil
}

// Close closes the idle connections.
func (a *Authorizer) Close() { a.service.Close() }

// answer holds the results of Authorize.
type answer struct {
	decision authz.Decision
	reason   string
	err      error
}

// Authorize returns a cached answer, or calls the service.
func (a *Authorizer) Authorize(ctx context.Context, at authz.Attributes) (authz.Decision, string, error) {
	key := hash(a.seed, &at)
	a.mu.Lock()
	known, ok := a.answers.get(key, &at)
	a.mu.Unlock()
	if !ok {
		known = a.share(ctx, key, at)
	}
	return known.decision, known.reason, known.err
}

// RulesFor returns Kubernetes' error that rules are not known in advance.
func (a *Authorizer) RulesFor(context.Context, *user.Info, string) (authz.Rules, error) {
	return authz.Rules{Incomplete: true}, fmt.Errorf("webhook %w", authz.ErrNoRules)
}

// failed returns the answer for a failed call.
func (a *Authorizer) failed(err error) answer {
	return answer{a.config.OnFailure, "", fmt.Errorf("authorization webhook: %w", err)}
}
