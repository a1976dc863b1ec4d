package rbac_test

import (
	"context"
	"fmt"
	"testing"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/authz/rbac"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func ExampleStatic() {
	may := rbac.Static(rbac.Policy{
		ClusterRoles: []*rbacv1.ClusterRole{{
			ObjectMeta: metav1.ObjectMeta{Name: "reader"},
			Rules:      []rbacv1.PolicyRule{{Verbs: []string{"get"}, NonResourceURLs: []string{"/reports/*"}}},
		}},
		ClusterRoleBindings: []*rbacv1.ClusterRoleBinding{{
			ObjectMeta: metav1.ObjectMeta{Name: "readers"},
			RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "reader"},
			Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: "Group", Name: "staff"}},
		}},
	})
	decision, reason, err := may.Authorize(context.Background(), authz.Attributes{
		User: &user.Info{Name: "jane", Groups: []string{"staff"}}, Verb: "get", Path: "/reports/today",
	})
	fmt.Println(decision, err)
	fmt.Println(reason)
	// Output:
	// allow <nil>
	// RBAC: allowed by ClusterRoleBinding "readers" of ClusterRole "reader" to Group "staff"
}

// A static policy decides as one that is followed does.
func TestStatic(t *testing.T) {
	roles, bindings := rbac.BootstrapPolicy()
	static := rbac.Static(rbac.Policy{ClusterRoles: roles, ClusterRoleBindings: bindings})
	p := newPolicy()
	p.clusterRoles.Replace(roles...)
	p.clusterRoleBindings.Replace(bindings...)
	followed := p.start(t)
	select {
	case <-static.Synced():
	default:
		t.Error("it is not synced")
	}
	allowed := 0
	for _, name := range []string{"system:kube-scheduler", "system:kube-controller-manager", "jane"} {
		for _, verb := range []string{"get", "create", "delete"} {
			for _, resource := range []string{"pods", "secrets", "leases", "nodes"} {
				at := authz.Attributes{User: &user.Info{Name: name, Groups: []string{user.Authenticated}}, Verb: verb, Resource: resource, Namespace: "kube-system"}
				got, _, gotErr := static.Authorize(t.Context(), at)
				want, _, wantErr := followed.Authorize(t.Context(), at)
				if got != want || gotErr != wantErr { // which of several bindings is the reason is open
					t.Errorf("%s %s %s: %v %v, want %v %v", name, verb, resource, got, gotErr, want, wantErr)
				}
				if got == authz.Allow {
					allowed++
				}
			}
		}
	}
	if allowed == 0 {
		t.Error("nothing is allowed")
	}
}
