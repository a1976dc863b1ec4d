package serviceaccount

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/user"
)

const (
	// leeway is the tolerance for different clocks, and for how long a deleted object remains
	// valid, as in Kubernetes.
	leeway = time.Minute
	// maxToken is larger than any service account token, in bytes.
	maxToken = 16 << 10
	// maxCached bounds the cached tokens, of about 2 KiB each.
	maxCached = 4096
)

// An Object is the state of an existing object.
type Object struct {
	UID string
	// Deleted is the time of deletion of an object that is being deleted
	// (metadata.deletionTimestamp); otherwise zero.
	Deleted time.Time
}

// A Lookup returns an object by name, and false if it does not exist. uid is the UID in the token:
// if a cache has another object or none, it may be stale, and the Lookup should read from the
// store. The namespace of a node is empty. A Lookup must be safe for concurrent use.
type Lookup func(ctx context.Context, namespace, name, uid string) (Object, bool, error)

// Config configures an Authenticator. Issuers, Audiences, Keys and Accounts are required.
type Config struct {
	// Issuers are the accepted issuers of tokens.
	Issuers []string
	// Audiences are the audiences of this server. A token must be meant for one of them, unless the
	// request's context requires others (see [authn.WithAudiences]).
	Audiences []string
	// Keys verify the signatures.
	Keys *KeySet
	// Accounts, Pods, Secrets and Nodes look up the objects that tokens are bound to. If one is
	// nil, tokens bound to such an object are refused.
	Accounts, Pods, Secrets, Nodes Lookup
	// Legacy looks up the secrets that contain tokens without expiry. If it is nil, such tokens are
	// not mine.
	Legacy HeldLookup
}

// Authenticator is an authn.Authenticator.
type Authenticator struct {
	config Config
	parser *jwt.Parser
	cache  *cache
}

// New returns an authenticator.
func New(c Config) (*Authenticator, error) {
	switch {
	case len(c.Issuers) == 0 || slices.Contains(c.Issuers, ""):
		return nil, errors.New("service account authenticator: Issuers must be set")
	case len(c.Audiences) == 0:
		return nil, errors.New("service account authenticator: Audiences must be set")
	case c.Keys == nil || c.Keys.current.Load() == nil:
		return nil, errors.New("service account authenticator: Keys must be set")
	case c.Accounts == nil:
		return nil, errors.New("service account authenticator: Accounts must be set")
	}
	c.Issuers, c.Audiences = slices.Clone(c.Issuers), slices.Clone(c.Audiences)
	return &Authenticator{
		config: c,
		cache:  newCache(maxCached),
		// The parser does not check times, because they are checked here on every use.
		parser: jwt.NewParser(jwt.WithoutClaimsValidation(), jwt.WithStrictDecoding(),
			jwt.WithValidMethods([]string{"ES256", "ES384", "ES512", "RS256"})),
	}, nil
}

// Reasons to refuse a token. They do not contain errors of the parser, which may quote the token.
var (
	errSignature = errors.New("service account token: the signature is not that of a known key")
	errClaims    = errors.New("service account token: claims are missing")
	errExpired   = errors.New("service account token has expired")
	errEarly     = errors.New("service account token is not valid yet")
	errAudience  = errors.New("service account token is for another audience")
)

// Authenticate verifies the bearer token of r.
func (a *Authenticator) Authenticate(r *http.Request) (*user.Info, bool, error) {
	token, ok, err := authn.BearerToken(r)
	if err != nil || !ok {
		return nil, false, err
	}
	now, current := time.Now(), a.config.Keys.current.Load()
	d := digestOf(token)
	v := a.cache.get(d, current)
	if v == nil {
		verify := a.verifierOf(token)
		if verify == nil {
			return nil, false, nil
		}
		if v, err = verify(token, current); err != nil {
			return nil, false, err
		}
	}
	if err := v.claims.timely(now); err != nil {
		a.cache.drop(d)
		return nil, false, err
	}
	matched, err := a.matched(r.Context(), v.claims.Audience)
	if err != nil {
		return nil, false, err
	}
	if v.legacy != "" {
		err = a.held(r.Context(), v, token, now)
	} else {
		err = a.bound(r.Context(), &v.claims.Kubernetes, now)
	}
	if err != nil {
		return nil, false, err
	}
	a.cache.put(d, v, now)
	v.claims.warn(r.Context(), now)
	authn.ReportMatched(r.Context(), matched)
	return v.user, true, nil
}

// matched returns the requested audiences that the token has, at least one.
func (a *Authenticator) matched(ctx context.Context, audiences []string) ([]string, error) {
	asked, ok := authn.Audiences(ctx)
	if !ok {
		asked = a.config.Audiences
	}
	var matched []string
	for _, to := range audiences {
		if slices.Contains(asked, to) {
			matched = append(matched, to)
		}
	}
	if len(matched) == 0 {
		return nil, errAudience
	}
	return matched, nil
}

// verifierOf returns the function that verifies a token of its claimed issuer, or nil if the issuer
// is not accepted. The claim is unverified.
func (a *Authenticator) verifierOf(token string) func(string, *keys) (*verified, error) {
	if len(token) > maxToken || strings.Count(token, ".") != 2 {
		return nil
	}
	payload, err := base64.RawURLEncoding.DecodeString(strings.Split(token, ".")[1])
	if err != nil {
		return nil
	}
	var claimed struct {
		Issuer string `json:"iss"`
	}
	switch err := json.Unmarshal(payload, &claimed); {
	case err != nil:
	case slices.Contains(a.config.Issuers, claimed.Issuer):
		return a.verify
	case claimed.Issuer == LegacyIssuer && a.config.Legacy != nil:
		return a.verifyLegacy
	}
	return nil
}

// verify verifies the signature of a token and reads it. The caller checks the audiences.
func (a *Authenticator) verify(token string, current *keys) (*verified, error) {
	v := &verified{keys: current}
	if _, err := a.parser.ParseWithClaims(token, &v.claims, current.forToken); err != nil {
		return nil, errSignature
	}
	c := &v.claims
	k := &c.Kubernetes
	if !slices.Contains(a.config.Issuers, c.Issuer) || c.ExpiresAt == nil ||
		k.Namespace == "" || k.Account.Name == "" || k.Account.UID == "" || c.Subject != Username(k.Namespace, k.Account.Name) {
		return nil, errClaims
	}
	v.user = c.info()
	return v, nil
}

// timely checks that the token is valid now.
func (c *claims) timely(now time.Time) error {
	if c.ExpiresAt != nil && now.Add(-leeway).After(c.ExpiresAt.Time) {
		return errExpired
	}
	for _, from := range []*jwt.NumericDate{c.NotBefore, c.IssuedAt} {
		if from != nil && now.Add(leeway).Before(from.Time) {
			return errEarly
		}
	}
	return nil
}

// StaleTokenKey is the key of an audit annotation for tokens that their holder should have
// replaced.
const StaleTokenKey = "authentication.k8s.io/stale-token"

func (c *claims) warn(ctx context.Context, now time.Time) {
	if from := c.Kubernetes.WarnAfter; from != nil && now.After(from.Time) {
		authn.Annotate(ctx, StaleTokenKey, fmt.Sprintf("subject: %s, seconds after warning threshold: %d", c.Subject, now.Unix()-from.Unix()))
	}
}

// bound checks that all objects that the token is bound to exist.
func (a *Authenticator) bound(ctx context.Context, k *private, now time.Time) error {
	if err := alive(ctx, "service account", a.config.Accounts, k.Namespace, &k.Account, now); err != nil {
		return err
	}
	if k.Pod != nil {
		if err := alive(ctx, "pod", a.config.Pods, k.Namespace, k.Pod, now); err != nil {
			return err
		}
	}
	if k.Secret != nil {
		if err := alive(ctx, "secret", a.config.Secrets, k.Namespace, k.Secret, now); err != nil {
			return err
		}
	}
	// The node of a pod is informative: the pod is deleted after its node.
	if k.Node != nil && k.Pod == nil {
		return alive(ctx, "node", a.config.Nodes, "", k.Node, now)
	}
	return nil
}

func alive(ctx context.Context, kind string, lookup Lookup, namespace string, ref *Ref, now time.Time) error {
	if lookup == nil {
		return fmt.Errorf("service account token is bound to a %s, which cannot be checked here", kind)
	}
	object, found, err := lookup(ctx, namespace, ref.Name, ref.UID)
	switch {
	case err != nil:
		return fmt.Errorf("%w: service account token: look up %s %s: %w", authn.ErrUnchecked, kind, join(namespace, ref.Name), err)
	case !found:
		return fmt.Errorf("service account token: %s %s is gone", kind, join(namespace, ref.Name))
	case object.UID != ref.UID:
		return fmt.Errorf("service account token: %s %s is another of the same name", kind, join(namespace, ref.Name))
	case !object.Deleted.IsZero() && object.Deleted.Before(now.Add(-leeway)):
		return fmt.Errorf("service account token: %s %s has been deleted", kind, join(namespace, ref.Name))
	}
	return nil
}

func join(namespace, name string) string {
	if namespace == "" {
		return name
	}
	return namespace + "/" + name
}
