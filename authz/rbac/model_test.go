package rbac_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/authz/rbac"
	"github.com/planekit/planekit/localcache"
	"go.uber.org/goleak"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// model is the plain reading of RBAC: look at everything, each time.
type model struct {
	roles               map[string]*rbacv1.Role
	roleBindings        map[string]*rbacv1.RoleBinding
	clusterRoles        map[string]*rbacv1.ClusterRole
	clusterRoleBindings map[string]*rbacv1.ClusterRoleBinding
}

func (m *model) rules(namespace string, ref rbacv1.RoleRef) []rbacv1.PolicyRule {
	if ref.Kind == "Role" {
		if r := m.roles[namespace+"/"+ref.Name]; r != nil {
			return r.Rules
		}
		return nil
	}
	if r := m.clusterRoles[ref.Name]; r != nil {
		return r.Rules
	}
	return nil
}

func (m *model) allows(u *user.Info, namespace, verb string) bool {
	bound := func(subjects []rbacv1.Subject) bool {
		return slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool {
			return s.Kind == "User" && s.Name == u.Name || s.Kind == "Group" && u.In(s.Name)
		})
	}
	has := func(rules []rbacv1.PolicyRule) bool {
		return slices.ContainsFunc(rules, func(r rbacv1.PolicyRule) bool { return slices.Contains(r.Verbs, verb) })
	}
	for _, b := range m.clusterRoleBindings {
		if bound(b.Subjects) && has(m.rules("", b.RoleRef)) {
			return true
		}
	}
	for _, b := range m.roleBindings {
		if b.Namespace == namespace && bound(b.Subjects) && has(m.rules(namespace, b.RoleRef)) {
			return true
		}
	}
	return false
}

// TestModel makes random changes and compares every decision with the model.
func TestModel(t *testing.T) {
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	synctest.Test(t, func(t *testing.T) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		pick := func(words ...string) string { return words[rnd.IntN(len(words))] }
		p := newPolicy()
		m := &model{map[string]*rbacv1.Role{}, map[string]*rbacv1.RoleBinding{},
			map[string]*rbacv1.ClusterRole{}, map[string]*rbacv1.ClusterRoleBinding{}}
		a := p.start(t)
		rules := func() []rbacv1.PolicyRule {
			r := getPods
			r.Verbs = []string{pick("get", "list"), pick("get", "list", "delete")}
			return []rbacv1.PolicyRule{r}
		}
		subjects := func() (s []rbacv1.Subject) {
			for range rnd.IntN(4) {
				s = append(s, rbacv1.Subject{Kind: pick("User", "Group"), Name: pick("a", "b", "c")})
			}
			return s
		}
		step := func() {
			namespace, name := pick("x", "y"), pick("1", "2", "3")
			gone := rnd.IntN(3) == 0
			switch rnd.IntN(4) {
			case 0:
				change(p.roles, m.roles, namespace+"/"+name, gone, &rbacv1.Role{
					ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Rules: rules()})
			case 1:
				change(p.roleBindings, m.roleBindings, namespace+"/"+name, gone, &rbacv1.RoleBinding{
					ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
					RoleRef:    rbacv1.RoleRef{Kind: pick("Role", "ClusterRole"), Name: pick("1", "2", "3")}, Subjects: subjects()})
			case 2:
				change(p.clusterRoles, m.clusterRoles, name, gone, clusterRole(name, rules()...))
			case 3:
				change(p.clusterRoleBindings, m.clusterRoleBindings, name, gone, clusterBinding(name, pick("1", "2", "3"), subjects()...))
			}
		}
		for range 400 {
			for range 1 + rnd.IntN(5) {
				step()
			}
			synctest.Wait()
			u := &user.Info{Name: pick("a", "b"), Groups: []string{pick("a", "b", "c"), pick("a", "b", "c")}}
			for _, namespace := range []string{"", "x", "y"} {
				for _, verb := range []string{"get", "list", "delete"} {
					d, reason, err := a.Authorize(t.Context(), authz.Attributes{User: u, Verb: verb, Resource: "pods", Namespace: namespace})
					if want := m.allows(u, namespace, verb); want != (d == authz.Allow) || err != nil {
						t.Fatalf("seed %d: %+v %s in %q: want %v, got %v %q %v", seed, u, verb, namespace, want, d, reason, err)
					}
				}
				listed, _ := a.RulesFor(t.Context(), u, namespace)
				for _, verb := range []string{"get", "list", "delete"} {
					has := slices.ContainsFunc(listed.Resources, func(r authz.ResourceRule) bool { return slices.Contains(r.Verbs, verb) })
					if want := m.allows(u, namespace, verb); want != has || listed.Incomplete {
						t.Fatalf("seed %d: %+v %s in %q: want %v, rules %+v", seed, u, verb, namespace, want, listed)
					}
				}
			}
		}
	})
}

// change puts or removes an object in the model and in the cache.
func change[T localcache.Object](cache *localcache.Map[T], objects map[string]T, key string, gone bool, object T) {
	if gone {
		delete(objects, key)
		cache.Delete(key)
		return
	}
	objects[key] = object
	cache.Put(object)
}

func TestBootstrapPolicy(t *testing.T) {
	roles, bindings := rbac.BootstrapPolicy()
	names := map[string]bool{}
	for _, r := range roles {
		if names[r.Name] || r.Labels["kubernetes.io/bootstrapping"] != "rbac-defaults" ||
			r.Annotations["rbac.authorization.kubernetes.io/autoupdate"] != "true" {
			t.Errorf("cluster role %s: twice, or without its marks", r.Name)
		}
		names[r.Name] = true
	}
	for _, b := range bindings {
		if !names[b.RoleRef.Name] || b.Labels["kubernetes.io/bootstrapping"] != "rbac-defaults" {
			t.Errorf("binding %s: no role, or without its marks", b.Name)
		}
	}
	roles[0].Rules[0].Verbs[0] = "changed"
	if again, _ := rbac.BootstrapPolicy(); again[0].Rules[0].Verbs[0] != "*" {
		t.Error("two calls share an array")
	}

	p := newPolicy()
	_, bindings = rbac.BootstrapPolicy()
	roles, _ = rbac.BootstrapPolicy()
	p.clusterRoles, p.clusterRoleBindings = localcache.NewMap(roles...), localcache.NewMap(bindings...)
	p.roleBindings = localcache.NewMap(
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "e", Namespace: "shop"},
			RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "edit"}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "eve"}}},
		&rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "v", Namespace: "shop"},
			RoleRef: rbacv1.RoleRef{Kind: "ClusterRole", Name: "view"}, Subjects: []rbacv1.Subject{{Kind: "User", Name: "vic"}}},
	)
	a := p.start(t)
	all := []string{user.Authenticated}
	for _, test := range []struct {
		user                                  string
		groups                                []string
		verb, group, resource, sub, ns, named string
		want                                  bool
	}{
		{"root", []string{user.Masters}, "escalate", "x.io", "things", "", "", "", true},
		{"eve", all, "create", "apps", "deployments", "", "shop", "", true},
		{"eve", all, "list", "", "pods", "", "shop", "", true},
		{"eve", all, "create", "apps", "deployments", "", "other", "", false},
		{"eve", all, "create", "rbac.authorization.k8s.io", "rolebindings", "", "shop", "", false},
		{"vic", all, "get", "", "pods", "log", "shop", "p", true},
		{"vic", all, "get", "", "secrets", "", "shop", "s", false},
		{"vic", all, "create", "authorization.k8s.io", "selfsubjectaccessreviews", "", "", "", true},
		{"n", []string{user.Nodes}, "patch", "", "pods", "status", "shop", "p", true},
		{"n", []string{user.Nodes}, "update", "", "pods", "", "shop", "p", false},
		{user.Scheduler, all, "create", "", "pods", "binding", "shop", "p", true},
		{user.Scheduler, all, "update", "coordination.k8s.io", "leases", "", "kube-system", "other", false},
		{user.ControllerManager, all, "create", "", "pods", "", "shop", "", true},
		{user.ControllerManager, all, "deletecollection", "x.io", "things", "", "shop", "", true},
		{user.ControllerManager, all, "create", "x.io", "things", "", "shop", "", false},
		{"system:serviceaccount:kube-system:job-controller", all, "update", "batch", "jobs", "status", "shop", "j", true},
		{"system:serviceaccount:other:job-controller", all, "update", "batch", "jobs", "status", "shop", "j", false},
		{user.Anonymous, []string{user.Unauthenticated}, "get", "", "pods", "", "shop", "", false},
	} {
		d, reason, err := a.Authorize(context.Background(), authz.Attributes{
			User: &user.Info{Name: test.user, Groups: test.groups}, Verb: test.verb, Group: test.group,
			Resource: test.resource, Subresource: test.sub, Namespace: test.ns, Name: test.named})
		if (d == authz.Allow) != test.want || err != nil {
			t.Errorf("Authorize(%+v) = %v, %q, %v, want allowed=%v and no error", test, d, reason, err, test.want)
		}
	}
	for path, want := range map[string]bool{"/version": true, "/readyz": true, "/metrics": false, "/apis": false} {
		d, _, _ := a.Authorize(context.Background(), authz.Attributes{Verb: "get", Path: path,
			User: &user.Info{Name: user.Anonymous, Groups: []string{user.Unauthenticated}}})
		if (d == authz.Allow) != want {
			t.Errorf("anonymous %s: %v", path, d)
		}
	}
}

// BenchmarkAuthorize decides for a user with one binding among many bindings.
func BenchmarkAuthorize(b *testing.B) {
	for _, n := range []int{10, 1000, 10_000} {
		p := newPolicy()
		p.clusterRoles = localcache.NewMap(clusterRole("r", getPods))
		for i := range n {
			name := fmt.Sprint("user-", i)
			p.clusterRoleBindings.Put(clusterBinding(name, "r", rbacv1.Subject{Kind: "User", Name: name}))
		}
		a := p.start(b)
		at := authz.Attributes{Verb: "get", Resource: "pods", Namespace: "x",
			User: &user.Info{Name: fmt.Sprint("user-", n-1), Groups: []string{"dev", user.Authenticated}}}
		b.Run(fmt.Sprintf("bindings=%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if d, _, _ := a.Authorize(context.Background(), at); d != authz.Allow {
					b.Fatal(d)
				}
			}
		})
	}
}
