package authn

import (
	"net/http"
	"slices"

	"github.com/planekit/planekit/authn/user"
)

// MeantFor makes the credentials that a knows count as meant for these audiences,
// where they name none themselves: static tokens, bootstrap tokens, passwords,
// certificates. When the context of a request demands an audience (see
// [WithAudiences]) and none of these is among them, the credential is not mine.
func MeantFor(audiences []string, a Authenticator) Authenticator {
	own := slices.Clone(audiences)
	return Func(func(r *http.Request) (*user.Info, bool, error) {
		demanded, ok := Audiences(r.Context())
		if ok && !slices.ContainsFunc(demanded, func(to string) bool { return slices.Contains(own, to) }) {
			return nil, false, nil
		}
		return a.Authenticate(r)
	})
}
