package apiserver_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/authz"
)

// TestAuthorizerFails: a request that no authorizer allows, because one of them failed,
// gets an error of the server in kube-apiserver's words. A request that another
// authorizer allows is served, and an impersonation is refused all the same.
func TestAuthorizerFails(t *testing.T) {
	down := errors.New("dial tcp 10.0.0.1:443: <refused>")
	says := func(d authz.Decision, reason string, err error) authz.Authorizer {
		return authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
			if a.Verb == "patch" {
				return authz.Allow, "", nil // so that more is asked
			}
			return d, reason, err
		})
	}
	const text = `Internal Server Error: "/api/v1/namespaces/default/pods?limit=5": dial tcp 10.0.0.1:443: &lt;refused&gt;` + "\n"
	for name, test := range map[string]struct {
		chain authz.Chain
		code  int
		body  string // of an answer that is no object
	}{
		"no opinion":            {authz.Chain{says(authz.NoOpinion, "", down)}, 500, text},
		"and another has none":  {authz.Chain{says(authz.NoOpinion, "", down), says(authz.NoOpinion, "RBAC: nothing", nil)}, 500, text},
		"denied on failure":     {authz.Chain{says(authz.Deny, "", down), authz.InsecureAlwaysAllow()}, 500, text},
		"but another allows":    {authz.Chain{says(authz.NoOpinion, "", down), authz.InsecureAlwaysAllow()}, 200, ""},
		"but another denies":    {authz.Chain{says(authz.NoOpinion, "", down), says(authz.Deny, "no", nil)}, 403, ""},
		"nothing went wrong":    {authz.Chain{says(authz.NoOpinion, `RBAC: clusterrole.rbac.authorization.k8s.io "x" not found`, nil)}, 403, ""},
		"nothing went wrong: 2": {authz.Chain{says(authz.Deny, "", nil)}, 403, ""},
	} {
		s := apiservertest.Start(t, apiservertest.WithResources(resources()...), apiservertest.WithAuthorizer(test.chain))
		a := &api{t, s.As("jane"), "http://memory"}
		got := a.do("GET", podPath+"?limit=5", "")
		if got.code != test.code || test.body != "" && (got.body != test.body || got.header.Get("Content-Type") != "text/plain; charset=utf-8") {
			t.Errorf("%s: %d %v %q, want %d %q", name, got.code, got.header, got.body, test.code, test.body)
		}
		// The same authorizers decide about impersonation.
		if got := a.do("GET", podPath, "", "Impersonate-User: joe"); test.code == 500 && got.code != 403 {
			t.Errorf("%s: %d to who wants to be another, want 403", name, got.code)
		}
		// What is asked in the middle of a request is answered as an object.
		if test.code != 500 {
			continue
		}
		const applied = `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"}}`
		got = a.do("PATCH", configPath+"/a?fieldManager=m", applied, "Content-Type: application/apply-patch+yaml")
		a.want(got, 500, "Internal error occurred: dial tcp")
	}
}

// TestAuthorizerNotReady: before an authorizer can decide, requests that no other one allows get a 503 with the time to send
// them again, and nothing is logged as an error.
func TestAuthorizerNotReady(t *testing.T) {
	starting := authz.Func(func(context.Context, authz.Attributes) (authz.Decision, string, error) {
		return authz.NoOpinion, "", fmt.Errorf("rbac: %w", authz.ErrNotReady)
	})
	logged := ""
	s := apiservertest.Start(t, apiservertest.WithResources(resources()...), apiservertest.WithAuthorizer(starting),
		apiservertest.WithConfig(func(c *apiserver.Config) {
			c.Log = funcr.New(func(_, text string) { logged += text }, funcr.Options{})
		}))
	got := (&api{t, s.As("jane"), "http://memory"}).do("GET", podPath, "")
	if got.code != 503 || got.header.Get("Retry-After") != "1" || !strings.Contains(got.body, `"reason":"ServiceUnavailable"`) {
		t.Errorf("GET = %d %v %s, want 503 with Retry-After: 1", got.code, got.header, got.body)
	}
	if strings.Contains(logged, "authorization incomplete") {
		t.Errorf("logged is %s, want no failure of authorization", logged)
	}
	ready := apiservertest.Start(t, apiservertest.WithResources(resources()...), apiservertest.WithAuthorizer(authz.Chain{starting, authz.InsecureAlwaysAllow()}))
	a := &api{t, ready.As("jane"), "http://memory"}
	a.want(a.do("GET", podPath, ""), 200, "")
}
