// Package oidc knows users by the ID tokens of OpenID Connect issuers, as
// kube-apiserver does with its --oidc flags
// (https://kubernetes.io/docs/reference/access-authn-authz/authentication/#openid-connect-tokens).
//
//	people, err := oidc.New(oidc.Config{Issuers: []oidc.Issuer{{
//		URL: "https://accounts.example.com", ClientIDs: []string{"kubernetes"},
//		UsernameClaim: "email", GroupsClaim: "groups", GroupsPrefix: "oidc:",
//	}}})
//	go people.Run(ctx)
//	chain := authn.Chain{certificates, people}
//
// An issuer is believed without a prefix at your own risk: it can then name any
// user and any group, system:masters with them.
//
// Whose a token is, its unverified claim iss says. A token that is no JSON Web
// Token, or another issuer's, is not mine. One of an issuer of ours that does not
// hold is refused, with a reason in the error and never a piece of the token; the
// error is [authn.ErrUnchecked] where other keys than those known now might say
// otherwise.
//
// [Authenticator.Run] finds the keys of every issuer (OpenID Connect Discovery
// 1.0) and keeps them current. An issuer that cannot be reached is tried again
// until it can; meanwhile only its own tokens are refused. Keys that were found
// are believed until the issuer can be asked again and no longer has them; that is
// as often as the issuer says, and at least every hour. A token that names a key
// which is not known has the keys fetched at once and waits for them, but no
// oftener than every ten seconds, whatever tokens are sent.
//
// As in Kubernetes a token must not be over, to the second; not before (nbf) has
// five minutes of leeway, and e-mail addresses count unless email_verified says
// that they do not. Unlike there, RSA keys shorter than 2048 bits are left out,
// and redirects lead nowhere but to the same host.
//
// Left out are distributed claims. Expressions in CEL are package structured's, by
// way of [Issuer].Refine. Nothing is remembered of
// tokens: whoever verifies many puts a cache before it.
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

// Config says whom to believe.
type Config struct {
	// Issuers must be one at least, each with another URL.
	Issuers []Issuer
	// Log is told of issuers that cannot be reached. Zero is silent.
	Log logr.Logger
}

// An Issuer is believed what its tokens say. URL and ClientIDs must be set.
type Issuer struct {
	// URL is the issuer's name and where it is found: https, without user, query
	// and fragment. As --oidc-issuer-url.
	URL string
	// DiscoveryURL is where the discovery document is, if not below URL.
	DiscoveryURL string
	// ClientIDs are who we are to the issuer; a token must be for one of them (aud).
	// As --oidc-client-id.
	ClientIDs []string
	// Parties are the clients that tokens may have been given to, where tokens tell
	// (azp). Empty means any, as in Kubernetes.
	Parties []string

	// UsernameClaim is the user's name; empty means "sub". As
	// --oidc-username-claim.
	UsernameClaim string
	// UsernamePrefix is put before the name. Empty means the URL and "#", but
	// nothing if the claim is "email"; "-" means nothing. As --oidc-username-prefix.
	UsernamePrefix string
	// GroupsClaim is a text or a list of texts; empty means that users have no
	// groups. As --oidc-groups-claim.
	GroupsClaim string
	// GroupsPrefix is put before each group. As --oidc-groups-prefix.
	GroupsPrefix string
	// UIDClaim, where set, is the user's UID; tokens must have it.
	UIDClaim string
	// ExtraClaims are claims, texts or lists of texts, that go to the user's extra
	// under the given keys. Tokens need not have them.
	ExtraClaims map[string]string
	// RequiredClaims must be in every token, as texts with these values. As
	// --oidc-required-claim.
	RequiredClaims map[string]string

	// Refine, when not nil, completes or refuses the user whom the fields above make
	// of a token that holds. It may change u, which nobody else has yet, and not
	// claims. An empty UsernameClaim gives u no name then, which Refine must, and
	// UsernamePrefix is taken as it is. Its errors must not have a piece of the token.
	// It is called by many goroutines, and must honour ctx.
	Refine func(ctx context.Context, claims map[string]json.RawMessage, u *user.Info) error

	// Algorithms are those a token may be signed with, of RS256, RS384, RS512,
	// ES256, ES384, ES512, PS256, PS384 and PS512; empty means RS256. As
	// --oidc-signing-algs.
	Algorithms []string

	// Roots are whom the issuer's certificate must be from; nil means those of the
	// system. As --oidc-ca-file.
	Roots *x509.CertPool
	// Transport, if not nil, is how the issuer is reached, in place of TLS with
	// Roots.
	Transport http.RoundTripper
}

// Authenticator is an authn.Authenticator.
type Authenticator struct {
	providers map[string]*provider
	ready     chan struct{}
	ran       atomic.Bool
}

// New returns an authenticator which refuses all tokens of its issuers until Run
// has found their keys.
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

// Run finds the keys of the issuers and keeps them current until ctx ends. It may
// be called once; afterwards the keys stay as they were.
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

// Ready is closed when the keys of every issuer have been found once.
func (a *Authenticator) Ready() <-chan struct{} { return a.ready }

// Authenticate verifies the bearer token of r. It may wait for keys, as long as
// the context of r lets it.
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
