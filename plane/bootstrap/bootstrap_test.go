package bootstrap_test

import (
	"context"
	"fmt"
	"net/http"
	"testing"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/aggregate"
	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/authz/rbac"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/plane/bootstrap"
	"github.com/planekit/planekit/storage/memstore"
	"golang.org/x/sync/errgroup"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A server gets the objects that every cluster begins with.
func Example() {
	api, err := serve()
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	if err := bootstrap.Seed(ctx, bootstrap.Config{Client: api, Resources: kube.Resources(), PriorityClasses: kube.PriorityClasses()}); err != nil {
		fmt.Println(err)
		return
	}
	if err := bootstrap.Grant(ctx, api, rbac.Bootstrap{}.Policy()); err != nil {
		fmt.Println(err)
		return
	}
	namespaces, _, err := typed.Namespaces(api).List(ctx, "", metav1.ListOptions{})
	for _, n := range namespaces {
		fmt.Println(n.Name)
	}
	view, _ := typed.ClusterRoles(api).Get(ctx, "", "view")
	fmt.Println(view.Name, err)
	// Output:
	// default
	// kube-node-lease
	// kube-public
	// kube-system
	// view <nil>
}

// serve returns a client of an API server in memory that may do everything.
func serve() (*client.Client, error) {
	root := &user.Info{Name: "root", Groups: []string{user.Masters, user.Authenticated}}
	server, err := apiserver.New(apiserver.Config{
		Store: memstore.New(), Resources: kube.Resources(), Authorizer: authz.Superusers(user.Masters),
		Authenticator: authn.Func(func(*http.Request) (*user.Info, bool, error) { return root, true, nil }),
	})
	if err != nil {
		return nil, err
	}
	return client.New(client.InProcess(server.Transport(root)))
}

// TestSeveralServers seeds from several servers at once, and again at a restart.
func TestSeveralServers(t *testing.T) {
	api, err := serve()
	if err != nil {
		t.Fatal(err)
	}
	config := bootstrap.Config{
		Client: api, Resources: kube.Resources(), PriorityClasses: kube.PriorityClasses(), RootCA: []byte("ca"),
		Authentication: aggregate.AuthenticationConfigMap([]byte("ca"), []byte("front"), "front-proxy-client"),
	}
	for range 2 {
		servers, ctx := errgroup.WithContext(t.Context())
		for range 3 {
			servers.Go(func() error {
				if err := bootstrap.Seed(ctx, config); err != nil {
					return err
				}
				return bootstrap.Grant(ctx, api, rbac.Bootstrap{}.Policy())
			})
		}
		if err := servers.Wait(); err != nil {
			t.Fatal(err)
		}
	}
	for _, namespace := range kube.Namespaces() {
		if _, err := typed.ServiceAccounts(api).Get(t.Context(), namespace.Name, "default"); err != nil {
			t.Error(err)
		}
		if m, err := typed.ConfigMaps(api).Get(t.Context(), namespace.Name, "kube-root-ca.crt"); err != nil || m.Data["ca.crt"] != "ca" {
			t.Errorf(`Get(%s, kube-root-ca.crt) = %v, %v, want ca.crt to be "ca"`, namespace.Name, m, err)
		}
	}
	if _, err := typed.ConfigMaps(api).Get(t.Context(), "kube-system", "extension-apiserver-authentication"); err != nil {
		t.Error(err)
	}
	if services, _, err := typed.APIServices(api).List(t.Context(), "", metav1.ListOptions{}); err != nil || len(services) == 0 {
		t.Errorf("%d APIServices: %v", len(services), err)
	}
}

// TestSeedLeavesObjects checks that Seed changes nothing that exists.
func TestSeedLeavesObjects(t *testing.T) {
	api, err := serve()
	if err != nil {
		t.Fatal(err)
	}
	own := kube.Namespaces()[0].DeepCopy()
	own.Labels = map[string]string{"own": "yes"}
	if _, err := typed.Namespaces(api).Create(t.Context(), own); err != nil {
		t.Fatal(err)
	}
	if err := bootstrap.Seed(t.Context(), bootstrap.Config{Client: api}); err != nil {
		t.Fatal(err)
	}
	if got, err := typed.Namespaces(api).Get(t.Context(), "", own.Name); err != nil || got.Labels["own"] != "yes" {
		t.Errorf("Get(%s) = %v, %v, want the label own=yes", own.Name, got, err)
	}
}

// TestGrant checks that Grant adds a rule that is missing, keeps rules that were added, and
// replaces a binding to another role.
func TestGrant(t *testing.T) {
	api, err := serve()
	if err != nil {
		t.Fatal(err)
	}
	rule := func(verb string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{Verbs: []string{verb}, APIGroups: []string{""}, Resources: []string{"pods"}}
	}
	policy := func(role string, rules ...rbacv1.PolicyRule) rbac.Policy {
		meta := metav1.ObjectMeta{Name: "readers", Annotations: map[string]string{rbacv1.AutoUpdateAnnotationKey: "true"}}
		return rbac.Policy{
			ClusterRoles: []*rbacv1.ClusterRole{{ObjectMeta: meta, Rules: rules}},
			ClusterRoleBindings: []*rbacv1.ClusterRoleBinding{{
				ObjectMeta: meta, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
				Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: "jane"}},
			}},
		}
	}
	for _, p := range []rbac.Policy{policy("others", rule("watch")), policy("readers", rule("get"), rule("list"))} {
		if err := bootstrap.Grant(t.Context(), api, p); err != nil {
			t.Fatal(err)
		}
	}
	role, err := typed.ClusterRoles(api).Get(t.Context(), "", "readers")
	if err != nil || len(role.Rules) == 0 {
		t.Fatal(role, err)
	}
	verbs := map[string]bool{}
	for _, r := range role.Rules {
		for _, v := range r.Verbs {
			verbs[v] = true
		}
	}
	if len(verbs) != 3 {
		t.Errorf("the role has the verbs %v", verbs)
	}
	if binding, err := typed.ClusterRoleBindings(api).Get(t.Context(), "", "readers"); err != nil || binding.RoleRef.Name != "readers" {
		t.Errorf("Get(readers) = %v, %v, want a binding to the role readers", binding, err)
	}
}
