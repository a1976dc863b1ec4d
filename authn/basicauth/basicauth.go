// Package basicauth authenticates users by name and password from a fixed list, in the format of
// kube-apiserver's --basic-auth-file (which Kubernetes had until 1.18): CSV lines of
//
//	password,user,uid,"group1,group2"
//
// where the groups are optional.
//
//	entries, err := basicauth.Parse(file)
//	passwords, err := basicauth.New(entries)
//	chain := authn.Chain{passwords}
//
// A request without an Authorization header of the Basic scheme (RFC 7617) is not mine. A malformed
// header, an unknown user and a wrong password are refused, in the same time. The name and the
// password are looked up together by a hash that is keyed with a random number and compared in
// constant time, so that the time of a lookup reveals nothing about the users and passwords on the
// list. Errors quote neither. Names and passwords are compared byte by byte, without Unicode
// normalization.
//
// The list of an Authenticator is immutable. Package reload replaces the Authenticator when the
// file changes.
package basicauth

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/internal/keyed"
	"github.com/planekit/planekit/authn/internal/userlist"
	"github.com/planekit/planekit/authn/user"
)

// Entry is one user with the password.
type Entry struct {
	Password string
	User     user.Info
}

// Authenticator is an authn.Authenticator.
type Authenticator struct {
	// holders holds the users by name, colon and password, as in the header: a name contains no
	// colon.
	holders *keyed.Table[*user.Info]
}

// New returns an authenticator for the users of entries. It fails on an empty password, on an empty
// or repeated name, and on names and passwords that a header cannot contain.
func New(entries []Entry) (*Authenticator, error) {
	holders := keyed.NewTable[*user.Info](len(entries))
	names := make(map[string]bool, len(entries))
	for i, e := range entries {
		if err := check(e); err != nil {
			return nil, fmt.Errorf("basicauth: entry %d: %w", i+1, err)
		}
		if names[e.User.Name] {
			return nil, fmt.Errorf("basicauth: entry %d: the same user name as an entry before", i+1)
		}
		names[e.User.Name] = true
		u := e.User
		u.Groups = slices.Clone(u.Groups)
		holders.Add(u.Name+":"+e.Password, &u)
	}
	return &Authenticator{holders}, nil
}

// check returns an error if e violates RFC 7617.
func check(e Entry) error {
	switch {
	case e.User.Name == "":
		return errors.New("the user name is empty")
	case e.Password == "":
		return errors.New("the password is empty")
	case strings.Contains(e.User.Name, ":"):
		return errors.New("the user name has a colon")
	case strings.ContainsFunc(e.User.Name, control) || strings.ContainsFunc(e.Password, control):
		return errors.New("the user name or the password has a control character")
	}
	return nil
}

func control(r rune) bool { return r < ' ' || r == 0x7f }

// Parse reads the lines of a password file. Errors name the line and never quote it. Parse fails on
// everything that [New] fails on.
func Parse(r io.Reader) ([]Entry, error) {
	unique := func(l userlist.Line) (string, string, error) {
		return l.User.Name, "user name", check(Entry{l.Secret, l.User})
	}
	lines, err := userlist.Format{File: "password file", Secret: "password", Check: unique}.Parse(r)
	if err != nil {
		return nil, err
	}
	entries := make([]Entry, len(lines))
	for i, l := range lines {
		entries[i] = Entry{Password: l.Secret, User: l.User}
	}
	return entries, nil
}

// Read makes an authenticator from the contents of a password file, like [Parse] and [New]. It is
// for use with package reload.
func Read(file []byte) (*Authenticator, error) {
	entries, err := Parse(bytes.NewReader(file))
	if err != nil {
		return nil, err
	}
	return New(entries)
}

var (
	errUnknown   = errors.New("unknown user or wrong password")
	errMalformed = errors.New("malformed basic authorization header")
)

// Authenticate looks up the name and password of r.
func (a *Authenticator) Authenticate(r *http.Request) (*user.Info, bool, error) {
	values := r.Header["Authorization"]
	switch len(values) {
	case 0:
		return nil, false, nil
	case 1:
	default:
		return nil, false, authn.ErrManyAuthorizations
	}
	scheme, encoded, _ := strings.Cut(strings.TrimSpace(values[0]), " ")
	if !strings.EqualFold(scheme, "basic") {
		return nil, false, nil
	}
	credentials, err := base64.StdEncoding.DecodeString(strings.TrimSpace(encoded))
	if err != nil || bytes.IndexByte(credentials, ':') < 0 {
		return nil, false, errMalformed
	}
	u, known := a.holders.Get(string(credentials))
	if !known {
		return nil, false, errUnknown
	}
	return u, true, nil
}
