// Package anonymous authenticates requests without credentials as the user "system:anonymous" in
// the group "system:unauthenticated". It must be last in a chain:
//
//	chain := authn.Chain{certificates, tokens, anonymous.Authenticator{}}
//
// An authorizer still has to grant permissions to these names. A request with an Authorization
// header is never anonymous, whether or not the header is valid, and a Chain does not return the
// anonymous user after a refusal. Authenticate never fails.
package anonymous

import (
	"net/http"
	"slices"

	"github.com/planekit/planekit/authn/user"
)

// Authenticator is an authn.Authenticator. The zero value accepts every request without
// credentials.
type Authenticator struct {
	// Paths, if not empty, restricts anonymous requests to exactly these URL paths, such as
	// "/livez".
	Paths []string
}

// Authenticate accepts requests without an Authorization header.
func (a Authenticator) Authenticate(r *http.Request) (*user.Info, bool, error) {
	if len(r.Header.Values("Authorization")) > 0 {
		return nil, false, nil
	}
	if len(a.Paths) > 0 && !slices.Contains(a.Paths, r.URL.Path) {
		return nil, false, nil
	}
	return &user.Info{Name: user.Anonymous, Groups: []string{user.Unauthenticated}}, true, nil
}
