package authz

import (
	"context"

	"github.com/planekit/planekit/authn/user"
)

// Superusers returns an authorizer that allows the members of group everything
// and has no opinion about anyone else. Asked first, it keeps an administrator
// in control when the roles are broken or gone; Kubernetes does so for
// "system:masters". It is a [Lister].
func Superusers(group string) Authorizer { return superusers(group) }

type superusers string

func (s superusers) Authorize(_ context.Context, a Attributes) (Decision, string, error) {
	if a.User.In(string(s)) {
		return Allow, "", nil
	}
	return NoOpinion, "", nil
}

func (s superusers) RulesFor(_ context.Context, u *user.Info, _ string) (Rules, error) {
	if !u.In(string(s)) {
		return Rules{}, nil
	}
	return everything(), nil
}
