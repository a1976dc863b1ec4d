// Package basicauth knows users by name and password from a fixed list, in the
// format of kube-apiserver's --basic-auth-file (which Kubernetes had until 1.18):
// CSV lines of
//
//	password,user,uid,"group1,group2"
//
// where the groups may be left out.
//
//	entries, err := basicauth.Parse(file)
//	passwords, err := basicauth.New(entries)
//	chain := authn.Chain{passwords}
//
// A request without an Authorization header of the Basic scheme (RFC 7617) is not
// mine; one with a malformed header, an unknown user or another password is
// refused, all with the same effort. Name and password together are found by a hash
// keyed with a random number of this process and compared in constant time: how
// long a look-up takes says nothing about the users or the passwords on the list.
// No error quotes either. Names and passwords are compared byte for byte, without
// regard to Unicode's equivalences.
//
// The list of an Authenticator does not change. Package reload replaces an
// Authenticator when the file changes.
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

// Entry is one user, with the password.
type Entry struct {
	Password string
	User     user.Info
}

// Authenticator is an authn.Authenticator.
type Authenticator struct {
	// holders are by name, colon and password, as the header says them: a name
	// has no colon.
	holders *keyed.Table[*user.Info]
}

// New returns an authenticator that knows the users of entries. It fails on an
// empty password, on a name that is empty, given twice or cannot be said in a
// header, and on passwords that cannot.
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

// check says what is wrong with e, by what RFC 7617 has to say.
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

// Parse reads the lines of a password file. Errors name the line, never what is
// on it. It fails on what [New] fails on.
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

// Read makes an authenticator of the contents of a password file, as [Parse] and
// [New] do. It is what package reload asks for.
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

// Authenticate looks up the name and password that r says.
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
