package authn

import (
	"net/http"
	"slices"

	"github.com/planekit/planekit/authn/user"
)

// MeantFor restricts a's credentials to these audiences. Use it for credentials that name no
// audiences themselves: static tokens, bootstrap tokens, passwords, certificates. If the request's
// context requires an audience (see [WithAudiences]) that is not among them, the answer is "not
// mine".
func MeantFor(audiences []string, a Authenticator) Authenticator {
	return &meantFor{slices.Clone(audiences), a}
}

type meantFor struct {
	audiences []string
	Authenticator
}

func (m *meantFor) Authenticate(r *http.Request) (*user.Info, bool, error) {
	demanded, ok := Audiences(r.Context())
	if ok && !slices.ContainsFunc(demanded, func(to string) bool { return slices.Contains(m.audiences, to) }) {
		return nil, false, nil
	}
	return m.Authenticator.Authenticate(r)
}

func (m *meantFor) Strip(h http.Header) { Chain{m.Authenticator}.Strip(h) }
