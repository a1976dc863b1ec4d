package authn

import (
	"errors"
	"net/http"
	"slices"

	"github.com/planekit/planekit/authn/user"
)

// Chain asks authenticators in order until one returns a user. A refusal does not end the search,
// because two authenticators may read the same header while only one of them knows the credential.
// Without a user, the result is all refusals joined, or "not mine" if there were none.
//
// A request with refused credentials never becomes the anonymous user: the result is the refusals.
//
// Chain adds the user to the group [user.Authenticated], in a copy of the Info, unless the user is
// anonymous. A Chain is an [Authenticator]; it must not be changed while it is in use.
type Chain []Authenticator

var errNameless = errors.New("authenticator returned a user without a name")

// Authenticate asks the authenticators of c in order.
func (c Chain) Authenticate(r *http.Request) (*user.Info, bool, error) {
	var refused []error
	for _, a := range c {
		u, known, err := a.Authenticate(r)
		switch {
		case err != nil:
			refused = append(refused, err)
		case !known:
		case u == nil || u.Name == "":
			refused = append(refused, errNameless)
		case !anonymous(u):
			return authenticated(u), true, nil
		case len(refused) == 0:
			return u, true, nil
		}
	}
	return nil, false, errors.Join(refused...)
}

func anonymous(u *user.Info) bool {
	return u.Name == user.Anonymous || u.In(user.Unauthenticated)
}

// authenticated adds the group to a copy, because requests may share the Info.
func authenticated(u *user.Info) *user.Info {
	if u.In(user.Authenticated) {
		return u
	}
	c := *u
	c.Groups = append(slices.Clip(u.Groups), user.Authenticated)
	return &c
}
