package rbac_test

import (
	"context"
	"testing"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/localcache"
	rbacv1 "k8s.io/api/rbac/v1"
)

// TestAllowAllocatesNothing: an Allow for any kind of subject does not allocate.
func TestAllowAllocatesNothing(t *testing.T) {
	p := newPolicy()
	p.clusterRoles = localcache.NewMap(clusterRole("r", getPods), clusterRole("paths", rbacv1.PolicyRule{Verbs: []string{"get"}, NonResourceURLs: []string{"/logs/*"}}),
		clusterRole("named", rbacv1.PolicyRule{Verbs: []string{"update"}, APIGroups: []string{"apps"}, Resources: []string{"*/scale"}, ResourceNames: []string{"web"}}))
	p.clusterRoleBindings = localcache.NewMap(
		clusterBinding("u", "r", rbacv1.Subject{Kind: "User", Name: "jane"}), clusterBinding("g", "paths", rbacv1.Subject{Kind: "Group", Name: "devs"}),
		clusterBinding("s", "named", rbacv1.Subject{Kind: "ServiceAccount", Namespace: "shop", Name: "web"}))
	a := p.start(t)
	for name, at := range map[string]authz.Attributes{
		"user":            {User: &user.Info{Name: "jane", Groups: []string{user.Authenticated}}, Verb: "get", Resource: "pods", Namespace: "x", Name: "p"},
		"group":           {User: &user.Info{Name: "joe", Groups: []string{"others", "devs", user.Authenticated}}, Verb: "get", Path: "/logs/a/b"},
		"service account": {User: &user.Info{Name: "system:serviceaccount:shop:web"}, Verb: "update", Group: "apps", Resource: "deployments", Subresource: "scale", Namespace: "x", Name: "web"},
	} {
		var got authz.Decision
		if n := testing.AllocsPerRun(100, func() { got, _, _ = a.Authorize(context.Background(), at) }); n != 0 || got != authz.Allow {
			t.Errorf("%s: %v with %v allocations", name, got, n)
		}
	}
}
