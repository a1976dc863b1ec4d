package rbac_test

import (
	"fmt"
	"testing"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/localcache"
	rbacv1 "k8s.io/api/rbac/v1"
)

// BenchmarkChange binds a user among many and waits until decisions see it.
func BenchmarkChange(b *testing.B) {
	for _, n := range []int{10, 1000, 50_000} {
		b.Run(fmt.Sprintf("bindings=%d", n), func(b *testing.B) {
			p := newPolicy()
			p.clusterRoles = localcache.NewMap(clusterRole("r", getPods))
			for i := range n {
				name := fmt.Sprint("user-", i)
				p.clusterRoleBindings.Put(clusterBinding(name, "r", rbacv1.Subject{Kind: "User", Name: name}))
			}
			a := p.start(b)
			bound := clusterBinding("new", "r", rbacv1.Subject{Kind: "User", Name: "new"})
			at := authz.Attributes{Verb: "get", Resource: "pods", User: &user.Info{Name: "new"}}
			wait := func(want authz.Decision) {
				for {
					if d, _, _ := a.Authorize(b.Context(), at); d == want {
						return
					}
				}
			}
			b.ReportAllocs()
			for b.Loop() {
				p.clusterRoleBindings.Put(bound)
				wait(authz.Allow)
				p.clusterRoleBindings.Delete("new")
				wait(authz.NoOpinion)
			}
		})
	}
}
