package authz_test

import (
	"context"
	"reflect"
	"testing"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
)

func TestAlways(t *testing.T) {
	yes := answers(authz.Allow, "yes", nil)
	no := answers(authz.Deny, "no", nil)
	for name, test := range map[string]struct {
		asked  authz.Authorizer
		want   authz.Decision
		reason string
	}{
		"allow":                      {authz.InsecureAlwaysAllow(), authz.Allow, ""},
		"deny":                       {authz.AlwaysDeny(), authz.NoOpinion, "Everything is forbidden."},
		"deny alone":                 {authz.Chain{authz.AlwaysDeny()}, authz.NoOpinion, "Everything is forbidden."},
		"deny asks the next":         {authz.Chain{authz.AlwaysDeny(), yes}, authz.Allow, "yes"},
		"allow ends the search":      {authz.Chain{authz.InsecureAlwaysAllow(), no}, authz.Allow, ""},
		"allow does not undo a deny": {authz.Chain{no, authz.InsecureAlwaysAllow()}, authz.Deny, "no"},
	} {
		for _, a := range []authz.Attributes{{}, {User: &user.Info{Name: "jane"}, Verb: "get", Resource: "pods"}, {Verb: "get", Path: "/"}} {
			got, reason, err := test.asked.Authorize(t.Context(), a)
			if got != test.want || reason != test.reason || err != nil {
				t.Errorf("%s: Authorize(%s %s%s) = %v, %q, %v, want %v, %q",
					name, a.Verb, a.Resource, a.Path, got, reason, err, test.want, test.reason)
			}
		}
	}
}

func TestAlwaysRules(t *testing.T) {
	all := []string{"*"}
	got, err := authz.RulesFor(t.Context(), authz.InsecureAlwaysAllow(), nil, "default")
	if want := (authz.Rules{
		Resources: []authz.ResourceRule{{Verbs: all, Groups: all, Resources: all}},
		Paths:     []authz.PathRule{{Verbs: all, Paths: all}},
	}); err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("allow: %+v, %v", got, err)
	}
	got, err = authz.RulesFor(t.Context(), authz.AlwaysDeny(), nil, "default")
	if err != nil || !reflect.DeepEqual(got, authz.Rules{}) {
		t.Errorf("deny: %+v, %v", got, err)
	}
}

// TestChainAllowsWithoutAllocation has several authorizers return reasons for no opinion before one
// allows.
func TestChainAllowsWithoutAllocation(t *testing.T) {
	pass := answers(authz.NoOpinion, "pass", nil)
	chain := authz.Chain{pass, pass, pass, authz.InsecureAlwaysAllow()}
	a := authz.Attributes{User: &user.Info{Name: "jane"}, Verb: "get", Resource: "pods"}
	ctx := context.Background()
	if n := testing.AllocsPerRun(100, func() {
		if d, _, _ := chain.Authorize(ctx, a); d != authz.Allow {
			t.Error(d)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
