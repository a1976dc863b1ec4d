// Package oidc authenticates users by ID tokens of OpenID Connect issuers, like kube-apiserver with
// its --oidc flags
// (https://kubernetes.io/docs/reference/access-authn-authz/authentication/#openid-connect-tokens).
//
//	people, err := oidc.New(oidc.Config{Issuers: []oidc.Issuer{{
//		URL: "https://accounts.example.com", ClientIDs: []string{"kubernetes"},
//		UsernameClaim: "email", GroupsClaim: "groups", GroupsPrefix: "oidc:",
//	}}})
//	go people.Run(ctx)
//	chain := authn.Chain{certificates, people}
//
// Use prefixes: an issuer without prefixes can name any user and any group, including
// system:masters.
//
// The unverified claim iss determines the issuer of a token. A token that is not a JSON Web Token,
// or is from an unknown issuer, is not mine. An invalid token of a known issuer is refused. The
// error contains the reason and never a part of the token. It is [authn.ErrUnchecked] if newer keys
// might verify the token.
//
// [Authenticator.Run] fetches the keys of every issuer (OpenID Connect Discovery 1.0) and keeps
// them current. If an issuer cannot be reached, Run retries, and only its own tokens are refused
// meanwhile. Keys are fetched again as often as the issuer says, at least every hour, and remain
// trusted until a newer key set lacks them. A token that names an unknown key triggers a fetch and
// waits for it, at most once in ten seconds.
//
// As in Kubernetes, expiry (exp) is exact to the second, not-before (nbf) has five minutes of
// leeway, and e-mail addresses are valid unless email_verified is false. Unlike Kubernetes, this
// package ignores RSA keys shorter than 2048 bits and follows redirects only to the same host.
//
// Not included: distributed claims. Package structured adds CEL expressions through
// [Issuer].Refine. Results are not cached; use package tokencache for that.
package oidc

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/user"
)

// Config configures an Authenticator.
type Config struct {
	// Issuers must not be empty. Each must have a different URL.
	Issuers []Issuer
	// Log receives failures to reach an issuer. The zero Logger discards them.
	Log logr.Logger
}

// An Issuer is trusted to identify users. URL and ClientIDs are required.
type Issuer struct {
	// URL is the issuer's name and address: https, without user, query and fragment. It is
	// --oidc-issuer-url.
	URL string
	// DiscoveryURL is the URL of the discovery document if it is not below URL.
	DiscoveryURL string
	// ClientIDs are the audiences (aud) of which a token must have one. It is --oidc-client-id.
	ClientIDs []string
	// Parties are the clients that may use tokens, for tokens that name one (azp). Empty means any,
	// as in Kubernetes.
	Parties []string

	// UsernameClaim is the claim with the user's name; empty means "sub". It is
	// --oidc-username-claim.
	UsernameClaim string
	// UsernamePrefix is prepended to the name. Empty means the URL and "#", or nothing if the claim
	// is "email"; "-" means nothing. It is --oidc-username-prefix.
	UsernamePrefix string
	// GroupsClaim is the claim with the groups, a string or a list of strings; empty means that
	// users have no groups. It is --oidc-groups-claim.
	GroupsClaim string
	// GroupsPrefix is prepended to each group. It is --oidc-groups-prefix.
	GroupsPrefix string
	// UIDClaim, if set, is the claim with the user's UID, which tokens must have.
	UIDClaim string
	// ExtraClaims maps keys of the user's extra to optional claims, strings or lists of strings.
	ExtraClaims map[string]string
	// RequiredClaims are claims with string values that every token must have. It is
	// --oidc-required-claim.
	RequiredClaims map[string]string

	// Refine, if not nil, completes or refuses the user of a valid token. It may change u, but not
	// claims. With an empty UsernameClaim, u has no name and Refine must set one; UsernamePrefix is
	// then used as it is. Its errors must not contain a part of the token. It is called
	// concurrently and must honour ctx.
	Refine func(ctx context.Context, claims map[string]json.RawMessage, u *user.Info) error

	// Algorithms are the signature algorithms to accept, out of RS256, RS384, RS512, ES256, ES384,
	// ES512, PS256, PS384 and PS512; empty means RS256. It is --oidc-signing-algs.
	Algorithms []string

	// Roots are the authorities for the issuer's certificate; nil means the system's. It is
	// --oidc-ca-file.
	Roots *x509.CertPool
	// Transport, if not nil, replaces TLS connections with Roots.
	Transport http.RoundTripper
}

// Authenticator is an authn.Authenticator.
type Authenticator struct {
	providers map[string]*provider
	ready     chan struct{}
	ran       atomic.Bool
}

// New returns an authenticator, which refuses all tokens of its issuers until Run has fetched their
// keys.
func New(c Config) (*Authenticator, error) {
	issuers, err := complete(c.Issuers)
	if err != nil {
		return nil, err
	}
	a := &Authenticator{providers: map[string]*provider{}, ready: make(chan struct{})}
	for _, i := range issuers {
		a.providers[i.URL] = newProvider(i, c.Log.WithValues("issuer", i.URL))
	}
	return a, nil
}

// Run fetches the keys of the issuers and keeps them current until ctx ends. It may be called once;
// afterwards the keys no longer change.
func (a *Authenticator) Run(ctx context.Context) error {
	if a.ran.Swap(true) {
		return errors.New("oidc: Run was called before")
	}
	var running, found sync.WaitGroup
	for _, p := range a.providers {
		running.Go(func() { p.run(ctx) })
		found.Go(func() {
			select {
			case <-p.found:
			case <-ctx.Done():
			}
		})
	}
	found.Wait()
	if ctx.Err() == nil {
		close(a.ready)
	}
	running.Wait()
	return nil
}

// Ready returns a channel that is closed when the keys of every issuer have been fetched once.
func (a *Authenticator) Ready() <-chan struct{} { return a.ready }

// Authenticate verifies the bearer token of r. It may wait for keys, at most as long as the context
// of r allows.
func (a *Authenticator) Authenticate(r *http.Request) (*user.Info, bool, error) {
	token, ok, err := authn.BearerToken(r)
	if err != nil || !ok {
		return nil, false, err
	}
	p := a.providers[issuerOf(token)]
	if p == nil {
		return nil, false, nil
	}
	c, err := p.verify(r.Context(), token)
	if err != nil {
		return nil, false, err
	}
	if err := p.issuer.holds(c, time.Now()); err != nil {
		return nil, false, err
	}
	u, err := p.issuer.refined(r.Context(), c)
	return u, err == nil, err
}
