package authz_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
)

func Example() {
	readers := authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
		if a.User.In("readers") && a.Verb == "get" {
			return authz.Allow, "readers may get", nil
		}
		return authz.NoOpinion, "", nil
	})
	may := authz.Chain{authz.Superusers(user.Masters), readers}

	jane := &user.Info{Name: "jane", Groups: []string{"readers"}}
	root := &user.Info{Name: "root", Groups: []string{user.Masters}}
	for _, a := range []authz.Attributes{
		{User: jane, Verb: "get", Resource: "pods"},
		{User: jane, Verb: "delete", Resource: "pods"},
		{User: root, Verb: "delete", Resource: "pods"},
	} {
		decision, reason, _ := may.Authorize(context.Background(), a)
		fmt.Printf("%s %s: %v %q\n", a.User.Name, a.Verb, decision, reason)
	}
	// Output:
	// jane get: allow "readers may get"
	// jane delete: no opinion ""
	// root delete: allow ""
}

func answers(d authz.Decision, reason string, err error) authz.Authorizer {
	return authz.Func(func(context.Context, authz.Attributes) (authz.Decision, string, error) {
		return d, reason, err
	})
}

func TestChain(t *testing.T) {
	broken := errors.New("broken")
	yes, no := answers(authz.Allow, "yes", nil), answers(authz.Deny, "no", nil)
	pass := answers(authz.NoOpinion, "pass", nil)
	down := answers(authz.NoOpinion, "", broken)
	for name, test := range map[string]struct {
		chain  authz.Chain
		want   authz.Decision
		reason string
		err    error
	}{
		"empty":                     {},
		"first allow":               {chain: authz.Chain{pass, yes, no}, want: authz.Allow, reason: "yes"},
		"first deny":                {chain: authz.Chain{pass, no, yes}, want: authz.Deny, reason: "no"},
		"no opinion":                {chain: authz.Chain{pass, pass}, reason: "pass\npass"},
		"broken, then allow":        {chain: authz.Chain{down, yes}, want: authz.Allow, reason: "yes"},
		"broken, no opinion":        {chain: authz.Chain{down, pass}, reason: "pass", err: broken},
		"allow with error is none":  {chain: authz.Chain{answers(authz.Allow, "", broken)}, err: broken},
		"deny with error":           {chain: authz.Chain{answers(authz.Deny, "no", broken), yes}, want: authz.Deny, reason: "no", err: broken},
		"superusers leave the rest": {chain: authz.Chain{authz.Superusers("root"), no}, want: authz.Deny, reason: "no"},
	} {
		got, reason, err := test.chain.Authorize(context.Background(), authz.Attributes{})
		if got != test.want || reason != test.reason || !errors.Is(err, test.err) {
			t.Errorf("%s: Authorize = %v, %q, %v, want %v, %q, %v", name, got, reason, err, test.want, test.reason, test.err)
		}
	}
}
