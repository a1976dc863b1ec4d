// Package tokenfile authenticates users by bearer tokens from a fixed list, in the format of
// kube-apiserver's --token-auth-file: CSV lines of
//
//	token,user,uid,"group1,group2"
//
// where the groups are optional.
//
//	entries, err := tokenfile.Parse(file)
//	tokens, err := tokenfile.New(entries)
//	chain := authn.Chain{tokens}
//
// A request without a bearer token is not mine. An unknown token is refused, and a later
// authenticator may still accept it. Tokens are looked up by a hash that is keyed with a random
// number and compared in constant time, so that the time of a lookup reveals nothing about the
// tokens on the list. Errors do not quote tokens.
//
// The list of an Authenticator is immutable. Package reload replaces the Authenticator when the
// file changes.
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

// Entry is one token with its user.
type Entry struct {
	Token string
	User  user.Info
}

// Authenticator is an authn.Authenticator.
type Authenticator struct{ holders *keyed.Table[*user.Info] }

// New returns an authenticator for the tokens of entries. It fails on an empty token, an empty user
// name and a repeated token.
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

// Read makes an authenticator from the contents of a token file, like [Parse] and [New]. It is for
// use with package reload.
func Read(file []byte) (*Authenticator, error) {
	entries, err := Parse(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	return New(entries)
}

var errUnknown = errors.New("unknown bearer token")

// Authenticate looks up the bearer token of r.
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
