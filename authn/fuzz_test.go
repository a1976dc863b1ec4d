package authn_test

import (
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/anonymous"
	"github.com/planekit/planekit/authn/basicauth"
	"github.com/planekit/planekit/authn/tokenfile"
	"github.com/planekit/planekit/authn/user"
)

// FuzzBearerToken shows that a token is the word behind "Bearer" and one space in the one header, and that nothing else is
// a token.
func FuzzBearerToken(f *testing.F) {
	form := regexp.MustCompile(`(?is)\Abearer ([^ ]+)( .*)?\z`)
	f.Add("Bearer abc", "", false)
	f.Add("bEARER   a b ", "Bearer x", true)
	f.Add("Bearer", "", true)
	f.Add("Bearer\tabc", "", false)
	f.Fuzz(func(t *testing.T, first, second string, both bool) {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header["Authorization"] = []string{first}
		if both {
			r.Header.Add("Authorization", second)
		}
		token, ok, err := authn.BearerToken(r)
		want := ""
		if match := form.FindStringSubmatch(strings.TrimSpace(first)); match != nil && !both {
			want = match[1]
		}
		switch {
		case ok != (token != "") || ok && err != nil || token != want:
			t.Errorf("%q, %q: token %q, %v, %v, want %q", first, second, token, ok, err, want)
		case both && err != authn.ErrManyAuthorizations:
			t.Errorf("two headers: %v", err)
		}
	})
}

// FuzzAuthorization checks that a request with any headers either is from the user that they name
// completely or has no user, and that errors and later handlers do not see the headers.
func FuzzAuthorization(f *testing.F) {
	chain := authn.Chain{
		must(tokenfile.Read([]byte("t0ken,robot,1\n"))), must(basicauth.Read([]byte("s3cret,jane,2\n"))), anonymous.Authenticator{},
	}
	f.Add("Bearer t0ken", "X-Remote-User", "root")
	f.Add("Basic amFuZTpzM2NyZXQ=", "Authorization", "Bearer t0ken")
	f.Add("Negotiate x", "x-Remote-group", "system:masters")
	f.Fuzz(func(t *testing.T, authorization, name, value string) {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Authorization", authorization)
		r.Header.Add(name, value)
		var got *http.Request
		w := httptest.NewRecorder()
		authn.Handler(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r }), chain).ServeHTTP(w, r)
		_, _, err := chain.Authenticate(r)
		if err != nil && (strings.Contains(err.Error(), "t0ken") || strings.Contains(err.Error(), "s3cret")) {
			t.Errorf("%q: the error quotes it: %v", authorization, err)
		}
		if (got == nil) != (w.Code == http.StatusUnauthorized) {
			t.Fatalf("Handler answers Authorization %q with %d and lets it through: %v, want 401 exactly if not",
				authorization, w.Code, got != nil)
		}
		if got == nil {
			return
		}
		u, _ := user.FromContext(got.Context())
		scheme, rest, _ := strings.Cut(strings.TrimSpace(authorization), " ")
		who := map[string]string{"bearer t0ken": "robot", "basic amFuZTpzM2NyZXQ=": "jane"}[strings.ToLower(scheme)+" "+strings.TrimSpace(rest)]
		if u == nil || u.Name != who || !u.In(user.Authenticated) {
			t.Errorf("%q is %+v, want %q", authorization, u, who)
		}
		for name := range got.Header {
			if name == "Authorization" || strings.HasPrefix(http.CanonicalHeaderKey(name), "X-Remote-") {
				t.Errorf("%s went further", name)
			}
		}
	})
}
