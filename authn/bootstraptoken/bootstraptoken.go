// Package bootstraptoken authenticates nodes that join a cluster by tokens kept in secrets, like
// kube-apiserver with --enable-bootstrap-token-auth
// (https://kubernetes.io/docs/reference/access-authn-authz/bootstrap-tokens/).
//
//	tokens, err := bootstraptoken.New(bootstraptoken.Config{Secrets: lookup})
//	chain := authn.Chain{certificates, tokens}
//
// A token is "abcdef.0123456789abcdef": a public ID and a secret part. It is kept in the secret
// bootstrap-token-<ID> of namespace kube-system, and authenticates the user system:bootstrap:<ID>
// in the group [Group] and in the groups named in the secret. The secret is looked up for each
// request, so the token ends with it.
//
// A request without a bearer token of this form is not mine. A token is refused if the secret does
// not exist, is being deleted, has another type or another secret part, has expired, is not meant
// for authentication, or cannot be parsed. The secret part is compared in constant time, and before
// the other fields of the secret. Errors do not quote it.
package bootstraptoken

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/user"
)

const (
	// Namespace is the namespace of the secrets, NamePrefix the prefix of their names, and
	// SecretType their type.
	Namespace  = "kube-system"
	NamePrefix = "bootstrap-token-"
	SecretType = "bootstrap.kubernetes.io/token"

	// Group is the group of all users with a bootstrap token. The names of further groups begin
	// with Group and a colon.
	Group = "system:bootstrappers"
	// UserPrefix is the prefix of the user names; the token's ID follows.
	UserPrefix = "system:bootstrap:"

	idLength, secretLength = 6, 16
)

// Keys of a secret's data.
const (
	keyID         = "token-id"
	keySecret     = "token-secret"
	keyExpiration = "expiration"
	keyUsage      = "usage-bootstrap-authentication"
	keyGroups     = "auth-extra-groups"
)

// Secret is the part of a secret that authentication needs.
type Secret struct {
	Type string
	Data map[string][]byte
	// Deleted means that the secret is being deleted.
	Deleted bool
}

// A Lookup returns a secret by name, and false if it does not exist. An error means that the lookup
// failed. It must be safe for concurrent use.
type Lookup func(ctx context.Context, namespace, name string) (Secret, bool, error)

// Config configures an Authenticator.
type Config struct {
	// Secrets looks up the secrets. Required.
	Secrets Lookup
}

// Authenticator is an authn.Authenticator.
type Authenticator struct{ secrets Lookup }

// New returns an authenticator.
func New(c Config) (*Authenticator, error) {
	if c.Secrets == nil {
		return nil, errors.New("bootstraptoken: Secrets must be set")
	}
	return &Authenticator{c.Secrets}, nil
}

// Authenticate looks up the bearer token of r.
func (a *Authenticator) Authenticate(r *http.Request) (*user.Info, bool, error) {
	token, ok, err := authn.BearerToken(r)
	if err != nil || !ok {
		return nil, false, err
	}
	id, secret, ok := Parse(token)
	if !ok {
		return nil, false, nil
	}
	kept, found, err := a.secrets(r.Context(), Namespace, NamePrefix+id)
	if err != nil {
		return nil, false, fmt.Errorf("%w: bootstrap token %s: %w", authn.ErrUnchecked, id, err)
	}
	if !found {
		return nil, false, fmt.Errorf("bootstrap token %s: no such token", id)
	}
	u, err := kept.user(id, secret, time.Now())
	if err != nil {
		return nil, false, fmt.Errorf("bootstrap token %s: %w", id, err)
	}
	return u, true, nil
}

// Parse splits a token into its ID and secret part. It reports whether the token has the form of one.
func Parse(token string) (id, secret string, ok bool) {
	id, secret, _ = strings.Cut(token, ".")
	return id, secret, len(id) == idLength && len(secret) == secretLength && only(id, alphanumeric) && only(secret, alphanumeric)
}

func alphanumeric(c byte) bool { return 'a' <= c && c <= 'z' || '0' <= c && c <= '9' }

func only(s string, allowed func(byte) bool) bool {
	for i := range len(s) {
		if !allowed(s[i]) {
			return false
		}
	}
	return true
}

// Reasons to refuse a token.
var (
	errDeleted    = errors.New("the secret is being deleted")
	errType       = errors.New("the secret is not of type " + SecretType)
	errSecret     = errors.New("another secret part")
	errID         = errors.New("the secret has another " + keyID)
	errExpiration = errors.New("the secret's " + keyExpiration + " cannot be read")
	errExpired    = errors.New("the token has expired")
	errUsage      = errors.New("the secret is without " + keyUsage + "=true")
)

// user returns the user of the token in s, if it has this ID and secret part.
func (s Secret) user(id, secret string, now time.Time) (*user.Info, error) {
	switch {
	case s.Deleted:
		return nil, errDeleted
	case s.Type != SecretType:
		return nil, errType
	case subtle.ConstantTimeCompare(s.Data[keySecret], []byte(secret)) != 1:
		return nil, errSecret
	case string(s.Data[keyID]) != id:
		return nil, errID
	}
	if expiration := string(s.Data[keyExpiration]); expiration != "" {
		end, err := time.Parse(time.RFC3339, expiration)
		if err != nil {
			return nil, errExpiration
		}
		if !now.Before(end) {
			return nil, errExpired
		}
	}
	if string(s.Data[keyUsage]) != "true" {
		return nil, errUsage
	}
	groups, err := groups(string(s.Data[keyGroups]))
	if err != nil {
		return nil, err
	}
	return &user.Info{Name: UserPrefix + id, Groups: groups}, nil
}

// groups returns Group and the groups in a comma-separated list, without duplicates, in order.
func groups(more string) ([]string, error) {
	all := []string{Group}
	if more != "" {
		for group := range strings.SplitSeq(more, ",") {
			if !validGroup(group) {
				return nil, fmt.Errorf("bootstrap group %q is invalid (must match %s)", group, `\A`+Group+`:[a-z0-9:-]{0,255}[a-z0-9]\z`)
			}
			all = append(all, group)
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}

func validGroup(group string) bool {
	rest, ok := strings.CutPrefix(group, Group+":")
	if !ok || rest == "" || len(rest) > 256 || !alphanumeric(rest[len(rest)-1]) {
		return false
	}
	return only(rest, func(c byte) bool { return alphanumeric(c) || c == ':' || c == '-' })
}
