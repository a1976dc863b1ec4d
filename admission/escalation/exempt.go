package escalation

import (
	"context"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/authz"
	rbacv1 "k8s.io/api/rbac/v1"
)

// mayEscalate reports whether the user may use the verb escalate on the role in r. A create has no
// name, so permissions that are limited to names do not apply.
func (p *Plugin) mayEscalate(ctx context.Context, r *admission.Request) bool {
	at := authz.Attributes{
		User: r.User, Verb: "escalate", Group: r.Resource.Group, Version: "*", Resource: r.Resource.Resource,
		Namespace: r.Namespace,
	}
	if r.Operation == admission.Update {
		at.Name = r.Name
	}
	return p.allowed(ctx, at)
}

// mayBind reports whether the user may use the verb bind on the role that r binds.
func (p *Plugin) mayBind(ctx context.Context, r *admission.Request, ref rbacv1.RoleRef) bool {
	at := authz.Attributes{User: r.User, Verb: "bind", Group: ref.APIGroup, Version: "*", Namespace: r.Namespace, Name: ref.Name}
	switch ref.Kind {
	case "ClusterRole":
		at.Resource = "clusterroles"
	case "Role":
		at.Resource = "roles"
	default:
		return false
	}
	return p.allowed(ctx, at)
}

// allowed treats everything except Allow as a refusal, including errors; the permissions themselves
// then decide.
func (p *Plugin) allowed(ctx context.Context, at authz.Attributes) bool {
	decision, _, err := p.config.Authorizer.Authorize(ctx, at)
	return decision == authz.Allow && err == nil
}
