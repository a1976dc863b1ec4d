package apiserver_test

import (
	"fmt"
	"net/http"
	"testing"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/storage/memstore"
)

func TestHandlers(t *testing.T) {
	says := func(text string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { fmt.Fprint(w, text, " ", r.Method, " ", r.URL.Path) })
	}
	s := apiservertest.Start(t, apiservertest.WithResources(resources()...), apiservertest.WithConfig(func(c *apiserver.Config) {
		c.Handlers = map[string]http.Handler{
			"/metrics": says("metrics"), "/debug/": says("debug"), "/debug/deep/": says("deep"), "/api/": says("stolen"),
		}
	}))
	a := &api{t, s.As("admin", "system:masters"), "http://memory"}
	for path, want := range map[string]string{
		"/metrics": "metrics GET /metrics", "/debug/a/b": "debug GET /debug/a/b", "/debug": "debug GET /debug",
		"/debug/deep/x": "deep GET /debug/deep/x", "/debug/deeper": "debug GET /debug/deeper",
	} {
		if got := a.want(a.do("GET", path, ""), 200, ""); got.body != want {
			t.Errorf("%s: %q, want %q", path, got.body, want)
		}
	}
	a.want(a.do("POST", "/metrics", ""), 200, "metrics POST")
	a.want(a.do("GET", "/metrics/more", ""), 404, "")
	a.want(a.do("GET", "/api", ""), 200, "APIVersions")
	a.want(a.do("GET", "/", ""), 200, `"/metrics"`)
	joe := &api{t, s.As("joe"), "http://memory"}
	joe.want(joe.do("GET", "/metrics", ""), 403, `User "joe" cannot get path "/metrics"`)
}

func TestHandlersAreChecked(t *testing.T) {
	for _, path := range []string{"metrics", "", "/"} {
		if _, err := apiserver.New(apiserver.Config{
			Store: memstore.New(), Authenticator: authn.Func(nil), Authorizer: authz.Func(nil),
			Handlers: map[string]http.Handler{path: http.NotFoundHandler()},
		}); err == nil {
			t.Errorf("%q was accepted", path)
		}
	}
}
