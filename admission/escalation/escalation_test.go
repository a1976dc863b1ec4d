package escalation_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/escalation"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/authz/rbac"
	"github.com/planekit/planekit/localcache"
	"go.uber.org/goleak"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func rules(lines ...string) []rbacv1.PolicyRule {
	var all []rbacv1.PolicyRule
	for _, line := range lines {
		w := strings.Fields(line)
		if strings.HasPrefix(w[1], "/") {
			all = append(all, rbacv1.PolicyRule{Verbs: strings.Split(w[0], ","), NonResourceURLs: w[1:]})
			continue
		}
		group, resource, _ := strings.Cut(w[1], ":")
		all = append(all, rbacv1.PolicyRule{Verbs: strings.Split(w[0], ","), APIGroups: []string{group}, Resources: strings.Split(resource, ","), ResourceNames: w[2:]})
	}
	return all
}

func clusterRole(name string, lines ...string) *rbacv1.ClusterRole {
	return &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: name}, Rules: rules(lines...)}
}

func binding(namespace, kind, role, u string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: u + "-" + role},
		RoleRef:  rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: role},
		Subjects: []rbacv1.Subject{{Kind: "User", Name: u}}}
}

func clusterBinding(role, u string) *rbacv1.ClusterRoleBinding {
	b := binding("", "ClusterRole", role, u)
	return &rbacv1.ClusterRoleBinding{ObjectMeta: b.ObjectMeta, RoleRef: b.RoleRef, Subjects: b.Subjects}
}

func aggregating(name, label string) *rbacv1.ClusterRole {
	r := clusterRole(name)
	r.AggregationRule = &rbacv1.AggregationRule{ClusterRoleSelectors: []metav1.LabelSelector{{MatchLabels: map[string]string{"in": label}}}}
	return r
}

func labelled(r *rbacv1.ClusterRole, label string) *rbacv1.ClusterRole {
	r.Labels = map[string]string{"in": label}
	return r
}

// policy has ann, who may do much in shop; bob, who reads pods; and people with
// the verbs escalate and bind.
func policy() rbac.Config {
	return rbac.Config{
		Roles: localcache.NewMap(
			&rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "reader"}, Rules: rules("get,list :pods")},
		),
		ClusterRoles: localcache.NewMap(
			clusterRole("admin", "* *:*", "* /*"), clusterRole("pods", "get,list :pods"), clusterRole("secrets", "get :secrets"),
			clusterRole("escalator", "escalate rbac.authorization.k8s.io:roles,clusterroles"),
			clusterRole("named", "escalate rbac.authorization.k8s.io:roles r"),
			clusterRole("binder", "bind rbac.authorization.k8s.io:clusterroles secrets"),
			labelled(clusterRole("part", "get :secrets"), "sum"), aggregating("sum", "sum"),
		),
		RoleBindings: localcache.NewMap(
			binding("shop", "ClusterRole", "admin", "ann"), binding("shop", "Role", "reader", "bob"),
			binding("shop", "ClusterRole", "binder", "local-binder"), binding("shop", "ClusterRole", "named", "namer"),
			binding("shop", "ClusterRole", "gone", "lost"),
		),
		ClusterRoleBindings: localcache.NewMap(
			clusterBinding("admin", "root"), clusterBinding("escalator", "esc"), clusterBinding("binder", "binder"), clusterBinding("pods", "reader"),
		),
	}
}

// start returns the plugin over a policy, with later as what only the store has.
func start(t testing.TB, c rbac.Config, later ...*rbacv1.ClusterRole) *escalation.Plugin {
	t.Helper()
	roles, err := rbac.New(c)
	if err != nil {
		t.Fatal(err)
	}
	run(t, roles)
	p, err := escalation.New(escalation.Config{Rights: roles, Authorizer: roles,
		LookupClusterRole: func(_ context.Context, _, name string) (*rbacv1.ClusterRole, error) {
			for _, r := range later {
				if r.Name == name {
					return r, nil
				}
			}
			return nil, apierrors.NewNotFound(rbacv1.Resource("clusterroles"), name)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// run has roles decide until the test ends.
func run(t testing.TB, roles *rbac.Authorizer) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- roles.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	<-roles.Synced()
}

// write is the request of u to write object, over old if there is one.
func write(u string, object, old metav1.Object) *admission.Request {
	r := &admission.Request{Operation: admission.Create, Name: object.GetName(), Namespace: object.GetNamespace(), Object: object,
		Resource: admission.GroupVersionResource{Group: rbacv1.GroupName, Version: "v1"}, User: &user.Info{Name: u, Groups: []string{"g1", "g2"}}}
	if old != nil {
		r.Operation, r.OldObject = admission.Update, old
	}
	switch object.(type) {
	case *rbacv1.Role:
		r.Resource.Resource = "roles"
	case *rbacv1.ClusterRole:
		r.Resource.Resource = "clusterroles"
	case *rbacv1.RoleBinding:
		r.Resource.Resource = "rolebindings"
	case *rbacv1.ClusterRoleBinding:
		r.Resource.Resource = "clusterrolebindings"
	}
	return r
}

func role(namespace, name string, lines ...string) *rbacv1.Role {
	return &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}, Rules: rules(lines...)}
}

func Example() {
	held := rules("get :pods")
	grants, err := escalation.New(escalation.Config{
		Rights:     heldByAll(held),
		Authorizer: authz.Chain{}, // no user may escalate or bind
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = grants.Validate(context.Background(), &admission.Request{
		Operation: admission.Create, Namespace: "shop", Name: "r", User: &user.Info{Name: "bob", Groups: []string{"dev"}},
		Resource: admission.GroupVersionResource{Group: rbacv1.GroupName, Version: "v1", Resource: "roles"},
		Object:   &rbacv1.Role{Rules: rules("get :pods", "get,list :secrets")},
	})
	fmt.Println(err)
	// Output:
	// roles.rbac.authorization.k8s.io "r" is forbidden: user "bob" (groups=["dev"]) is attempting to grant RBAC permissions not currently held:
	// {APIGroups:[""], Resources:["secrets"], Verbs:["get" "list"]}
}

// heldByAll is rights that everybody has.
type heldByAll []rbacv1.PolicyRule

func (h heldByAll) Missing(_ context.Context, _ *user.Info, _ string, wanted []rbacv1.PolicyRule) ([]rbacv1.PolicyRule, error) {
	return slices.DeleteFunc(slices.Clone(wanted), func(w rbacv1.PolicyRule) bool {
		return slices.ContainsFunc(h, func(r rbacv1.PolicyRule) bool { return r.String() == w.String() })
	}), nil
}

func (h heldByAll) RoleRules(rbacv1.RoleRef, string) ([]rbacv1.PolicyRule, bool) { return nil, false }

// TestGrants: which writes are allowed. refused is what the message reports as missing.
func TestGrants(t *testing.T) {
	p := start(t, policy(), clusterRole("new", "get :pods"), aggregating("newsum", "x"))
	crb := func(role string) *rbacv1.ClusterRoleBinding { return clusterBinding(role, "anybody") }
	rb := func(role string) *rbacv1.RoleBinding { return binding("shop", "ClusterRole", role, "anybody") }
	finalized := role("shop", "r", "get :secrets")
	finalized.Finalizers, finalized.OwnerReferences, finalized.ResourceVersion = []string{"x"}, []metav1.OwnerReference{{Name: "o"}}, "8"
	const secrets = `{APIGroups:[""], Resources:["secrets"], Verbs:["get"]}`
	for _, test := range []struct {
		name    string
		request *admission.Request
		refused string
	}{
		{"own rights", write("bob", role("shop", "r", "get :pods"), nil), ""},
		{"more than own", write("bob", role("shop", "r", "get :pods,secrets"), nil), secrets},
		{"own rights elsewhere", write("bob", role("other", "r", "get :pods"), nil), `{APIGroups:[""], Resources:["pods"], Verbs:["get"]}`},
		{"a wildcard", write("bob", role("shop", "r", "* :pods"), nil), `{APIGroups:[""], Resources:["pods"], Verbs:["*"]}`},
		{"a name within", write("bob", role("shop", "r", "get :pods x"), nil), ""},
		{"cluster role from rights in a namespace", write("bob", clusterRole("r", "get :pods"), nil), `{APIGroups:[""], Resources:["pods"], Verbs:["get"]}`},
		{"cluster role", write("reader", clusterRole("r", "get :pods"), nil), ""},
		{"path", write("reader", clusterRole("r", "get /metrics"), nil), `{NonResourceURLs:["/metrics"], Verbs:["get"]}`},
		{"everything in a namespace", write("ann", role("shop", "r", "* *:*"), nil), ""},
		{"nobody", write("nobody", role("shop", "r", "get :pods"), nil), `{APIGroups:[""], Resources:["pods"], Verbs:["get"]}`},
		{"an empty role", write("nobody", role("shop", "r"), nil), ""},

		{"escalate role", write("esc", role("shop", "r", "* *:*"), nil), ""},
		{"escalate cluster role", write("esc", aggregating("r", "x"), nil), ""},
		{"escalate named, on create", write("namer", role("shop", "r", "get :secrets"), nil), secrets},
		{"escalate named, on update", write("namer", role("shop", "r", "get :secrets"), role("shop", "r")), ""},
		{"escalate other name", write("namer", role("shop", "s", "get :secrets"), role("shop", "s")), secrets},
		{"escalate is not bind", write("esc", crb("secrets"), nil), secrets},

		{"update adds", write("bob", role("shop", "r", "get :pods", "get :secrets"), role("shop", "r", "get :pods")), secrets},
		{"update takes away", write("bob", role("shop", "r", "get :pods"), role("shop", "r", "get :pods,secrets")), ""},
		{"update of finalizers and owners", write("bob", finalized, role("shop", "r", "get :secrets")), ""},
		{"same with no change", write("bob", role("shop", "r", "get :secrets"), role("shop", "r", "get :secrets")), ""},
		{"label that aggregates", write("bob", labelled(clusterRole("r", "get :secrets"), "sum"), clusterRole("r", "get :secrets")), secrets},

		{"aggregation", write("reader", aggregating("r", "x"), nil), "must have cluster-admin privileges to use the aggregationRule"},
		{"aggregation by one who has all", write("root", aggregating("r", "x"), nil), ""},
		{"aggregation by one who has all in a namespace", write("ann", aggregating("r", "x"), nil), "must have cluster-admin privileges to use the aggregationRule"},
		{"aggregation taken off", write("reader", clusterRole("r"), aggregating("r", "x")), "must have cluster-admin privileges to use the aggregationRule"},

		{"bind own", write("bob", rb("pods"), nil), ""},
		{"bind own role", write("bob", binding("shop", "Role", "reader", "x"), nil), ""},
		{"bind more", write("bob", rb("secrets"), nil), secrets},
		{"bind an aggregate", write("bob", rb("sum"), nil), secrets},
		{"bind in the cluster from rights in a namespace", write("ann", crb("pods"), nil), `{APIGroups:[""], Resources:["pods"], Verbs:["get" "list"]}`},
		{"bind with the verb", write("binder", crb("secrets"), nil), ""},
		{"bind with the verb in a namespace", write("local-binder", rb("secrets"), nil), ""},
		{"bind in the cluster with the verb in a namespace", write("local-binder", crb("secrets"), nil), secrets},
		{"bind another with the verb", write("binder", rb("admin"), nil), `{APIGroups:["*"], Resources:["*"], Verbs:["*"]}`},
		{"bind missing with the verb", write("esc", rb("none"), nil), `clusterroles.rbac.authorization.k8s.io "none" not found`},
		{"bind a role that is elsewhere", write("ann", binding("other", "Role", "reader", "x"), nil), `roles.rbac.authorization.k8s.io "reader" not found`},
		{"bind what is new", write("bob", rb("new"), nil), ""},
		{"bind what is new and aggregates", write("bob", rb("newsum"), nil), `{APIGroups:["*"], Resources:["*"], Verbs:["*"]}`},
		{"bind what is of another kind", write("bob", binding("shop", "Other", "x", "x"), nil), `unsupported role reference kind: "Other"`},
		{"more subjects", write("bob", binding("shop", "ClusterRole", "secrets", "x"), binding("shop", "ClusterRole", "secrets", "y")), secrets},
		{"no more subjects", write("bob", rb("secrets"), rb("secrets")), ""},
		{"unresolved", write("lost", rb("secrets"), nil), `; resolution errors: [clusterrole.rbac.authorization.k8s.io "gone" not found]`},
	} {
		err := p.Validate(t.Context(), test.request)
		if (err == nil) != (test.refused == "") || err != nil && !strings.Contains(err.Error(), test.refused) {
			t.Errorf("%s: Validate(request) = %v, want an error with %q (nil if empty)", test.name, err, test.refused)
		}
		test.request.User.Groups = append(test.request.User.Groups, user.Masters)
		if err := p.Validate(t.Context(), test.request); err != nil {
			t.Errorf("%s by system:masters: %v", test.name, err)
		}
	}
}

// TestOthers: no other object and no other operation is looked at.
func TestOthers(t *testing.T) {
	p := start(t, policy())
	for _, change := range []func(*admission.Request){
		func(r *admission.Request) { r.Operation = admission.Delete },
		func(r *admission.Request) { r.Operation = admission.Connect },
		func(r *admission.Request) { r.Subresource = "status" },
		func(r *admission.Request) { r.Object = &metav1.PartialObjectMetadata{} },
	} {
		r := write("nobody", role("shop", "r", "get :secrets"), nil)
		if err := p.Validate(t.Context(), r); err == nil {
			t.Error("nobody may write a role")
		}
		change(r)
		if err := p.Validate(t.Context(), r); err != nil {
			t.Errorf("Validate(%s of %T, subresource %q) = %v, want nil", r.Operation, r.Object, r.Subresource, err)
		}
	}
	nobody := write("x", role("shop", "r", "get :secrets"), nil)
	nobody.User = nil
	if err := p.Validate(t.Context(), nobody); err == nil {
		t.Error("a request of nobody passes")
	}
	if _, err := escalation.New(escalation.Config{}); err == nil {
		t.Error("no rights, no error")
	}
	var forbidden *admission.ForbiddenError
	err := p.Validate(t.Context(), write("nobody", role("shop", "r", "get :secrets"), nil))
	if !errors.As(err, &forbidden) || forbidden.Resource != "roles" || forbidden.Group != rbacv1.GroupName || forbidden.Name != "r" {
		t.Errorf("Validate(a new role of a user with no rights) = %#v, want a ForbiddenError of roles in %s with the name r",
			err, rbacv1.GroupName)
	}
}

// TestBrokenAuthorizer: one that cannot say is no leave to escalate.
func TestBrokenAuthorizer(t *testing.T) {
	p, err := escalation.New(escalation.Config{Rights: heldByAll(nil), Authorizer: authz.Func(
		func(context.Context, authz.Attributes) (authz.Decision, string, error) {
			return authz.NoOpinion, "", errors.New("broken")
		})})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Validate(t.Context(), write("x", role("shop", "r", "get :pods"), nil)); err == nil || strings.Contains(err.Error(), "broken") {
		t.Errorf("Validate(a new role) = %v, want an error without %q", err, "broken")
	}
	for _, missing := range []metav1.Object{binding("shop", "Role", "r", "x"), clusterBinding("r", "x")} {
		if err := p.Validate(t.Context(), write("x", missing, nil)); !apierrors.IsNotFound(err) {
			t.Errorf("without a lookup: %v", err)
		}
	}
}
