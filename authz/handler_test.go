package authz_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
)

func TestHandler(t *testing.T) {
	may := authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
		switch {
		case a.User == nil:
			return authz.NoOpinion, "", nil
		case a.Path == "/broken":
			return authz.NoOpinion, "", errors.New("a secret of the server")
		case a.User.Name == "jane" && (a.Verb == "get" && strings.HasPrefix(a.Path, "/public/") || a.Resource == "lamps"):
			return authz.Allow, "", nil
		}
		return authz.Deny, "by no role", nil
	})
	served := 0
	next := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { served++ })
	lamps := func(r *http.Request) authz.Attributes {
		at := authz.Path(r)
		at.Path, at.Resource = "", strings.TrimPrefix(r.URL.Path, "/")
		return at
	}
	for _, test := range []struct {
		attributes         func(*http.Request) authz.Attributes
		user, method, path string
		code               int
		text               string
	}{
		{nil, "jane", "GET", "/public/a", 200, ""},
		{nil, "jane", "PUT", "/public/a", 403, `forbidden: User "jane" cannot put path "/public/a": by no role`},
		{nil, "", "GET", "/public/a", 403, `forbidden: User "" cannot get path "/public/a"`},
		{nil, "jane", "GET", "/%0aSet-Cookie", 403, `"/\nSet-Cookie"`},
		{nil, "jane", "GET", "/broken", 500, "authorization failed"},
		{lamps, "jane", "GET", "/lamps", 200, ""},
		{lamps, "joe", "GET", "/lamps", 403, `User "joe" cannot get resource "lamps" in API group ""`},
	} {
		r := httptest.NewRequest(test.method, test.path, nil)
		if test.user != "" {
			r = r.WithContext(user.NewContext(r.Context(), &user.Info{Name: test.user}))
		}
		w := httptest.NewRecorder()
		served = 0
		authz.Handler(next, may, test.attributes).ServeHTTP(w, r)
		if w.Code != test.code || !strings.Contains(w.Body.String(), test.text) || strings.Contains(w.Body.String(), "secret") || (served == 1) != (test.code == 200) {
			t.Errorf("%s %s by %q: %d %s, served %d", test.method, test.path, test.user, w.Code, w.Body, served)
		}
	}
}
