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
// are found by a hash keyed with a random number of this process and compared in
// constant time: how long a look-up takes says nothing about the tokens on the
// list. No error quotes a token.
//
// The list of an Authenticator does not change. Package reload replaces an
// Authenticator when the file changes.
package tokenfile

import (
	"bytes"
	"errors"
	"fmt"
	"net/http"
	"slices"

	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/internal/keyed"
	"github.com/planekit/planekit/authn/user"
)

// Entry is one token and whom it stands for.
type Entry struct {
	Token string
	User  user.Info
}

// Authenticator is an authn.Authenticator.
type Authenticator struct{ holders *keyed.Table[*user.Info] }

// New returns an authenticator that knows the tokens of entries. It fails on
// an empty token, an empty user name and a token given twice.
func New(entries []Entry) (*Authenticator, error) {
	holders := keyed.NewTable[*user.Info](len(entries))
	for i, e := range entries {
		if e.Token == "" || e.User.Name == "" {
			return nil, fmt.Errorf("tokenfile: entry %d: token or user is empty", i+1)
		}
		u := e.User
		u.Groups = slices.Clone(u.Groups)
		if !holders.Add(e.Token, &u) {
			return nil, fmt.Errorf("tokenfile: entry %d: the same token as an entry before", i+1)
		}
	}
	return &Authenticator{holders}, nil
}

// Read makes an authenticator of the contents of a token file, as [Parse] and
// [New] do. It is what package reload asks for.
func Read(file []byte) (*Authenticator, error) {
	entries, err := Parse(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	return New(entries)
}

var errUnknown = errors.New("unknown bearer token")

// Authenticate looks the bearer token of r up.
func (a *Authenticator) Authenticate(r *http.Request) (*user.Info, bool, error) {
	token, ok, err := authn.BearerToken(r)
	if err != nil || !ok {
		return nil, false, err
	}
	u, known := a.holders.Get(token)
	if !known {
		return nil, false, errUnknown
	}
	return u, true, nil
}
