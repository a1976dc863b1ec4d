package authn_test

import (
	"net/http/httptest"
	"testing"

	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/user"
)

func TestMeantFor(t *testing.T) {
	own := []string{"api", "https://kubernetes.default.svc"}
	a := authn.MeantFor(own, knows(&user.Info{Name: "jane"}))
	own[0] = "vault"
	for name, test := range map[string]struct {
		demanded []string
		known    bool
	}{
		"nothing demanded": {nil, true},
		"ours":             {[]string{"api"}, true},
		"one of ours":      {[]string{"vault", "https://kubernetes.default.svc"}, true},
		"another's":        {[]string{"vault"}, false},
		"nearly ours":      {[]string{"API", ""}, false},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r = r.WithContext(authn.WithAudiences(r.Context(), test.demanded))
		if _, known, err := a.Authenticate(r); known != test.known || err != nil {
			t.Errorf("%s: known %v, error %v", name, known, err)
		}
	}
}
