// Package tokenfile knows users by bearer tokens from a fixed list, in the
// format of kube-apiserver's --token-auth-file: CSV lines of
//
//	token,user,uid,"group1,group2"
//
// where the groups may be left out.
//
//	entries, err := tokenfile.Parse(file)
//	tokens, err := tokenfile.New(entries)
//	chain := authn.Chain{tokens}
//
// A request without a bearer token is not mine; one with a token that is not
// on the list is refused, and a later authenticator may still know it. Tokens
// are kept and compared only as keyed hashes: how long a look-up takes says
// nothing about the tokens on the list. No error quotes a token. The list does
// not change; to change it, make another Authenticator.
package tokenfile

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/user"
)

// Entry is one token and whom it stands for.
type Entry struct {
	Token string
	User  user.Info
}

type digest [sha256.Size]byte

type holder struct {
	digest digest
	user   *user.Info
}

// Authenticator is an authn.Authenticator.
type Authenticator struct {
	key     [sha256.Size]byte
	holders map[digest]holder
}

// New returns an authenticator that knows the tokens of entries. It fails on
// an empty token, an empty user name and a token given twice.
func New(entries []Entry) (*Authenticator, error) {
	a := &Authenticator{holders: make(map[digest]holder, len(entries))}
	rand.Read(a.key[:])
	for i, e := range entries {
		if e.Token == "" || e.User.Name == "" {
			return nil, fmt.Errorf("tokenfile: entry %d: token or user is empty", i+1)
		}
		d := a.digest(e.Token)
		if _, taken := a.holders[d]; taken {
			return nil, fmt.Errorf("tokenfile: entry %d: the same token as an entry before", i+1)
		}
		u := e.User
		u.Groups = slices.Clone(u.Groups)
		a.holders[d] = holder{digest: d, user: &u}
	}
	return a, nil
}

var errUnknown = errors.New("unknown bearer token")

// Authenticate looks the bearer token of r up.
func (a *Authenticator) Authenticate(r *http.Request) (*user.Info, bool, error) {
	token, ok, err := authn.BearerToken(r)
	if err != nil || !ok {
		return nil, false, err
	}
	d := a.digest(token)
	h := a.holders[d]
	if h.user == nil || subtle.ConstantTimeCompare(h.digest[:], d[:]) != 1 {
		return nil, false, errUnknown
	}
	return h.user, true, nil
}

// digest is keyed with a secret of this process, so nobody outside can choose
// tokens whose digests come near another's.
func (a *Authenticator) digest(token string) digest {
	mac := hmac.New(sha256.New, a.key[:])
	mac.Write([]byte(token))
	return digest(mac.Sum(nil))
}
