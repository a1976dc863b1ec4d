// Package webhook asks a remote service for decisions, by Kubernetes'
// SubjectAccessReview
// (https://kubernetes.io/docs/reference/access-authn-authz/webhook/): what
// kube-apiserver does with --authorization-webhook-config-file.
//
//	remote, err := webhook.New(webhook.Config{URL: "https://authz.example.com/authorize", TLS: config})
//	may := authz.Chain{authz.Superusers(user.Masters), roles, remote}
//
// An answer that allows is remembered for five minutes, any other for half a
// minute, for exactly the same question: user, UID, groups in order, extra and
// all attributes. So a decision may be as old as that. The least recently used
// of 8192 answers is forgotten first; questions of 10,000 bytes and more are not
// remembered, as in kube-apiserver. Equal questions that come at one time are
// asked once. Failures are not remembered.
//
// The service may allow, deny, or do neither, which is NoOpinion. Both at once is
// Deny with an error. When it cannot be asked or gives no answer, there is an
// error beside what Config.OnFailure says. A failing service is asked up to five
// times, with pauses from half a second on, if the failure may pass by itself:
// 429, 5xx, a connection refused or lost. The context of the decision ends the
// waiting. Redirects are not followed.
//
// Authorizer starts no goroutines; the connections it keeps open for the next
// question end after 90 seconds, or with Close. Field and label selectors of a
// request are not passed on: the service decides on the whole resource.
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

// How long answers are remembered by default, as in kube-apiserver.
const (
	DefaultAuthorizedTTL   = 5 * time.Minute
	DefaultUnauthorizedTTL = 30 * time.Second
)

// Config says where the service is: what kube-apiserver reads from a kubeconfig
// and flags.
type Config struct {
	// URL is where SubjectAccessReviews are posted to. It must be https.
	URL string
	// TLS has the roots to believe and the client certificate to show. Nil
	// believes the system's roots.
	TLS *tls.Config
	// Transport carries the requests in place of connections made with TLS, which
	// must be nil then.
	Transport http.RoundTripper
	// BearerToken, if not empty, is how one is known to the service.
	BearerToken string
	// Timeout is for one attempt. Zero is 3 seconds.
	Timeout time.Duration
	// Version is that of the reviews, "v1" or "v1beta1", as in
	// --authorization-webhook-version. Empty is v1.
	Version string
	// AuthorizedTTL and UnauthorizedTTL are how long answers that allow, and all
	// others, are remembered. Zero is the default above; less than zero is not at
	// all.
	AuthorizedTTL, UnauthorizedTTL time.Duration
	// OnFailure is the decision when there is no answer: NoOpinion, which lets
	// others be asked, or Deny.
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
	flights map[uint64]*question // guarded by mu; what is being asked
}

// New checks c and asks nothing yet.
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

// Close closes the connections that are kept for the next question.
func (a *Authorizer) Close() { a.service.Close() }

// answer is what Authorize returns.
type answer struct {
	decision authz.Decision
	reason   string
	err      error
}

// Authorize answers from memory, or asks.
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

// RulesFor says that nothing can be said beforehand, in Kubernetes' words.
func (a *Authorizer) RulesFor(context.Context, *user.Info, string) (authz.Rules, error) {
	return authz.Rules{Incomplete: true}, fmt.Errorf("webhook %w", authz.ErrNoRules)
}

// failed is the answer when there is none.
func (a *Authorizer) failed(err error) answer {
	return answer{a.config.OnFailure, "", fmt.Errorf("authorization webhook: %w", err)}
}
