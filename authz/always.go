package authz

import (
	"context"

	"github.com/planekit/planekit/authn/user"
)

// InsecureAlwaysAllow returns an authorizer that allows every request, the mode AlwaysAllow of
// kube-apiserver's --authorization-mode. It is a [Lister].
func InsecureAlwaysAllow() Authorizer { return always{Allow, ""} }

// AlwaysDeny returns an authorizer that allows no request, the mode AlwaysDeny of kube-apiserver's
// --authorization-mode. As there, its answer is NoOpinion with a reason, so that a chain still asks
// later authorizers. It is a [Lister].
func AlwaysDeny() Authorizer { return always{NoOpinion, "Everything is forbidden."} }

type always struct {
	decision Decision
	reason   string
}

func (a always) Authorize(context.Context, Attributes) (Decision, string, error) {
	return a.decision, a.reason, nil
}

func (a always) RulesFor(context.Context, *user.Info, string) (Rules, error) {
	if a.decision != Allow {
		return Rules{}, nil
	}
	return everything(), nil
}

// everything returns the rule that allows every request.
func everything() Rules {
	all := []string{"*"}
	return Rules{
		Resources: []ResourceRule{{Verbs: all, Groups: all, Resources: all}},
		Paths:     []PathRule{{Verbs: all, Paths: all}},
	}
}
