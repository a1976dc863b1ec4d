package authz

import "context"

// Superusers returns an authorizer that allows the members of group everything
// and has no opinion about anyone else. Asked first, it keeps an administrator
// in control when the roles are broken or gone; Kubernetes does so for
// "system:masters".
func Superusers(group string) Authorizer {
	return Func(func(_ context.Context, a Attributes) (Decision, string, error) {
		if a.User.In(group) {
			return Allow, "", nil
		}
		return NoOpinion, "", nil
	})
}
