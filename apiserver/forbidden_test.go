package apiserver_test

import (
	"testing"

	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/authz"
)

// TestForbiddenWords has chains in which no authorizer allows: all their reasons are
// given, and nothing that a client has chosen looks like HTML.
func TestForbiddenWords(t *testing.T) {
	const text = `pods "p" is forbidden: User "&lt;jane&gt; &amp; co" cannot get resource "pods" in API group "" in the namespace "default"`
	for reason, chain := range map[string]authz.Chain{
		"":                           {},
		": Everything is forbidden.": {authz.AlwaysDeny()},
		": Everything is forbidden.\nEverything is forbidden.": {authz.AlwaysDeny(), authz.Superusers("root"), authz.AlwaysDeny()},
	} {
		s := apiservertest.Start(t, apiservertest.WithResources(resources()...), apiservertest.WithAuthorizer(chain))
		a := &api{t, s.As("<jane> & co"), "http://memory"}
		if got := a.do("GET", podPath+"/p", ""); got.code != 403 || got.message() != text+reason {
			t.Errorf("%d %s\nwant %s", got.code, got.message(), text+reason)
		}
	}
}
