package authz

import (
	"context"

	"github.com/planekit/planekit/authn/user"
)

// Superusers returns an authorizer that allows members of group everything and otherwise has no
// opinion. As the first authorizer it lets an administrator repair broken or missing roles;
// Kubernetes does so for "system:masters". It is a [Lister].
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
