// Package bootstraptoken knows those who join a cluster by tokens that are kept
// in secrets, as kube-apiserver does with --enable-bootstrap-token-auth
// (https://kubernetes.io/docs/reference/access-authn-authz/bootstrap-tokens/).
//
//	tokens, err := bootstraptoken.New(bootstraptoken.Config{Secrets: lookup})
//	chain := authn.Chain{certificates, tokens}
//
// A token is "abcdef.0123456789abcdef", an ID that anybody may know and a secret
// part. It is kept in the secret bootstrap-token-<ID> of namespace kube-system,
// and stands for the user system:bootstrap:<ID> of the group [Group], and of more
// groups that the secret names. Secrets are looked up for each request, so a token
// ends with its secret.
//
// A request without a bearer token of this form is not mine. A token is refused
// when there is no such secret, when it is being deleted, is of another type,
// has another secret part, has expired or is not meant for authentication, and
// when what it says cannot be read. The secret part is compared in constant time,
// and before anything else that the secret says. No error quotes it.
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
	// Namespace is where the secrets are, NamePrefix what their names begin with,
	// and SecretType of which type they are.
	Namespace  = "kube-system"
	NamePrefix = "bootstrap-token-"
	SecretType = "bootstrap.kubernetes.io/token"

	// Group is that of all users known by a bootstrap token. Further groups begin
	// with it and a colon.
	Group = "system:bootstrappers"
	// UserPrefix begins their names; the token's ID follows.
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

// Secret is what must be known of a secret.
type Secret struct {
	Type string
	Data map[string][]byte
	// Deleted says that it has been deleted, though it is still there.
	Deleted bool
}

// A Lookup finds a secret by name, and false where there is none. An error says
// that it could not be found out. Must be safe for concurrent use.
type Lookup func(ctx context.Context, namespace, name string) (Secret, bool, error)

// Config says where tokens are kept.
type Config struct {
	// Secrets finds them. It must be set.
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
	id, secret, ok := parse(token)
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

// parse takes a token apart.
func parse(token string) (id, secret string, ok bool) {
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

// The refusals.
var (
	errDeleted    = errors.New("the secret is being deleted")
	errType       = errors.New("the secret is not of type " + SecretType)
	errSecret     = errors.New("another secret part")
	errID         = errors.New("the secret has another " + keyID)
	errExpiration = errors.New("the secret's " + keyExpiration + " cannot be read")
	errExpired    = errors.New("the token has expired")
	errUsage      = errors.New("the secret is without " + keyUsage + "=true")
)

// user is whom the token of s with this secret part stands for.
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

// groups are Group and those of a comma-separated list, each once and in order.
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
