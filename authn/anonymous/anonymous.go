// Package anonymous lets requests without credentials in as the user
// "system:anonymous" of the group "system:unauthenticated". It stands last in a
// chain:
//
//	chain := authn.Chain{certificates, tokens, anonymous.Authenticator{}}
//
// Being known does not mean being allowed: an authorizer still has to grant
// something to these names. A request with an Authorization header is never
// anonymous, whatever became of the header, and a Chain takes no anonymous
// user after a refusal. It never fails.
package anonymous

import (
	"net/http"
	"slices"

	"github.com/planekit/planekit/authn/user"
)

// Authenticator is an authn.Authenticator. The zero value knows every request
// without credentials.
type Authenticator struct {
	// Paths, when not empty, restricts anonymous requests to exactly these URL
	// paths, such as "/livez".
	Paths []string
}

// Authenticate takes requests that carry no Authorization header.
func (a Authenticator) Authenticate(r *http.Request) (*user.Info, bool, error) {
	if len(r.Header.Values("Authorization")) > 0 {
		return nil, false, nil
	}
	if len(a.Paths) > 0 && !slices.Contains(a.Paths, r.URL.Path) {
		return nil, false, nil
	}
	return &user.Info{Name: user.Anonymous, Groups: []string{user.Unauthenticated}}, true, nil
}
