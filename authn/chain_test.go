package authn_test

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/user"
)

func knows(u *user.Info) authn.Authenticator {
	return authn.Func(func(*http.Request) (*user.Info, bool, error) { return u, true, nil })
}

func refuses(err error) authn.Authenticator {
	return authn.Func(func(*http.Request) (*user.Info, bool, error) { return nil, false, err })
}

func TestChain(t *testing.T) {
	jane := &user.Info{Name: "jane", Groups: []string{"dev"}}
	nobody := &user.Info{Name: user.Anonymous, Groups: []string{user.Unauthenticated}}
	bad, worse := errors.New("bad"), errors.New("worse")
	pass := refuses(nil)
	for name, test := range map[string]struct {
		chain  authn.Chain
		want   string
		groups []string
		errs   []error
	}{
		"empty":                    {chain: nil},
		"all pass":                 {chain: authn.Chain{pass, pass}},
		"second knows":             {chain: authn.Chain{pass, knows(jane)}, want: "jane", groups: []string{"dev", user.Authenticated}},
		"known after refusal":      {chain: authn.Chain{refuses(bad), knows(jane)}, want: "jane", groups: []string{"dev", user.Authenticated}},
		"first known wins":         {chain: authn.Chain{knows(jane), refuses(bad)}, want: "jane", groups: []string{"dev", user.Authenticated}},
		"all refuse":               {chain: authn.Chain{refuses(bad), pass, refuses(worse)}, errs: []error{bad, worse}},
		"anonymous":                {chain: authn.Chain{pass, knows(nobody)}, want: user.Anonymous, groups: []string{user.Unauthenticated}},
		"no anonymous after error": {chain: authn.Chain{refuses(bad), knows(nobody)}, errs: []error{bad}},
		"nested":                   {chain: authn.Chain{authn.Chain{knows(jane)}}, want: "jane", groups: []string{"dev", user.Authenticated}},
	} {
		t.Run(name, func(t *testing.T) {
			u, known, err := test.chain.Authenticate(httptest.NewRequest("GET", "/", nil))
			for _, want := range test.errs {
				if !errors.Is(err, want) {
					t.Errorf("error %v is not %v", err, want)
				}
			}
			if (err != nil) != (len(test.errs) > 0) || known != (test.want != "") {
				t.Fatalf("known %v, error %v", known, err)
			}
			if known && (u.Name != test.want || !slices.Equal(u.Groups, test.groups)) {
				t.Errorf("got %+v", u)
			}
		})
	}
	if !slices.Equal(jane.Groups, []string{"dev"}) {
		t.Errorf("the authenticator's own Info was changed: %v", jane.Groups)
	}
}

func TestChainRefusesNamelessUser(t *testing.T) {
	for _, u := range []*user.Info{nil, {}} {
		_, known, err := authn.Chain{knows(u)}.Authenticate(httptest.NewRequest("GET", "/", nil))
		if known || err == nil {
			t.Errorf("%v: known %v, error %v", u, known, err)
		}
	}
}

func TestChainGroupsAreNotShared(t *testing.T) {
	groups := make([]string, 1, 8)
	groups[0] = "dev"
	chain := authn.Chain{knows(&user.Info{Name: "jane", Groups: groups})}
	a, _, _ := chain.Authenticate(httptest.NewRequest("GET", "/", nil))
	b, _, _ := chain.Authenticate(httptest.NewRequest("GET", "/", nil))
	a.Groups[1] = "changed"
	if b.Groups[1] != user.Authenticated {
		t.Error("two requests share one array of groups")
	}
}

func TestHandler(t *testing.T) {
	var got *http.Request
	next := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { got = r })
	server := authn.Handler(next, knows(&user.Info{Name: "jane"}))

	r := httptest.NewRequest("GET", "/", nil)
	r.Header.Set("Authorization", "Bearer x")
	server.ServeHTTP(httptest.NewRecorder(), r)
	if u, ok := user.FromContext(got.Context()); !ok || u.Name != "jane" {
		t.Errorf("user in context: %v", u)
	}
	if got.Header.Get("Authorization") != "" {
		t.Error("the credential reached the next handler")
	}
	if r.Header.Get("Authorization") != "Bearer x" {
		t.Error("the original request was changed")
	}

	got = nil
	r.Header.Add("Authorization", "Bearer y")
	w := httptest.NewRecorder()
	server.ServeHTTP(w, r)
	if got != nil || w.Code != http.StatusUnauthorized {
		t.Errorf("two Authorization headers: %d", w.Code)
	}
}

func TestHandlerRefuses(t *testing.T) {
	for name, a := range map[string]authn.Authenticator{
		"unknown":  authn.Chain{},
		"error":    refuses(errors.New("token s3cret is bad")),
		"nameless": knows(&user.Info{}),
		"nil":      knows(nil),
	} {
		w := httptest.NewRecorder()
		next := http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Errorf("%s: let through", name) })
		authn.Handler(next, a).ServeHTTP(w, httptest.NewRequest("GET", "/", nil))
		want := `{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"Unauthorized","reason":"Unauthorized","code":401}` + "\n"
		if w.Code != 401 || w.Body.String() != want || w.Header().Get("Content-Type") != "application/json" {
			t.Errorf("%s: Handler answers %d %s as %q, want 401 %s as application/json",
				name, w.Code, w.Body, w.Header().Get("Content-Type"), want)
		}
	}
}

func TestHasSpaceBeforeToken(t *testing.T) {
	for header, want := range map[string]bool{"": false, "Bearer a": false, "bearer  a": true, "Bearer   ": false, "Bearer a  b": false, "Basic  a": false} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header.Set("Authorization", header)
		if got := authn.HasSpaceBeforeToken(r); got != want {
			t.Errorf("HasSpaceBeforeToken(%q) = %v, want %v", header, got, want)
		}
	}
}

func TestBearerToken(t *testing.T) {
	for _, test := range []struct {
		headers []string
		token   string
		ok, bad bool
	}{
		{headers: nil},
		{headers: []string{"Basic eA=="}},
		{headers: []string{"Bearer abc"}, token: "abc", ok: true},
		{headers: []string{" bearer abc "}, token: "abc", ok: true},
		{headers: []string{"bearer  abc"}},
		{headers: []string{"Bearer a b"}, token: "a", ok: true},
		{headers: []string{"Bearer"}},
		{headers: []string{"Bearer "}},
		{headers: []string{"Bearer a", "Bearer a"}, bad: true},
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.Header["Authorization"] = test.headers
		token, ok, err := authn.BearerToken(r)
		if token != test.token || ok != test.ok || (err != nil) != test.bad {
			t.Errorf("BearerToken(%q) = %q, %v, %v, want %q, %v, an error: %v", test.headers, token, ok, err, test.token, test.ok, test.bad)
		}
	}
}
