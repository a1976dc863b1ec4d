package escalation_test

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/authz/rbac"
	"github.com/planekit/planekit/localcache"
	rbacv1 "k8s.io/api/rbac/v1"
)

// TestServer: a user that may write all roles and bindings cannot gain permissions by it, over
// HTTP, by any kind of write.
func TestServer(t *testing.T) {
	policy := policy()
	policy.ClusterRoles.(*localcache.Map[*rbacv1.ClusterRole]).Put(clusterRole("roles", "create,update,patch,get rbac.authorization.k8s.io:*"))
	bindings := policy.ClusterRoleBindings.(*localcache.Map[*rbacv1.ClusterRoleBinding])
	bindings.Put(clusterBinding("roles", "eve"))
	bindings.Put(clusterBinding("pods", "eve"))
	rights, err := rbac.New(policy)
	if err != nil {
		t.Fatal(err)
	}
	run(t, rights)
	s := apiservertest.Start(t, apiservertest.WithResources(kube.Resources()...),
		apiservertest.WithAuthorizer(authz.Chain{authz.Superusers(user.Masters), rights}),
		apiservertest.WithAdmission(admission.Chain{Validators: []admission.Validator{start(t, policy)}}))
	do := func(client *http.Client, method, path, kind, body string) (int, string) {
		t.Helper()
		r, err := http.NewRequest(method, s.URL+"/apis/rbac.authorization.k8s.io/v1/"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("Content-Type", kind)
		response, err := client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		data, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(data)
	}
	const asJSON, merge, apply = "application/json", "application/merge-patch+json", "application/apply-patch+yaml"
	const grants = `"rules":[{"apiGroups":[""],"resources":["secrets"],"verbs":["get"]}]`
	const own = `"rules":[{"apiGroups":[""],"resources":["pods"],"verbs":["get"]}]`
	const toEve = `"subjects":[{"kind":"User","apiGroup":"rbac.authorization.k8s.io","name":"eve"}]`
	ref := func(role string) string {
		return `"roleRef":{"apiGroup":"rbac.authorization.k8s.io","kind":"ClusterRole","name":"` + role + `"}`
	}
	const refused = `user \"eve\" (groups=[]) is attempting to grant RBAC permissions not currently held:\n{APIGroups:[\"\"], Resources:[\"secrets\"], Verbs:[\"get\"]}`
	words := func(prefix string) string {
		var all []string
		for i := range 300 {
			all = append(all, fmt.Sprintf("%q", fmt.Sprint(prefix, i)))
		}
		return "[" + strings.Join(all, ",") + "]"
	}
	wide := `"rules":[{"apiGroups":` + words("g") + `,"resources":` + words("r") + `,"verbs":` + words("v") + `}]`
	root, eve := s.As("root", user.Masters), s.As("eve")
	for _, test := range []struct {
		client                   *http.Client
		method, path, kind, body string
		code                     int
		text                     string
	}{
		{root, "POST", "clusterroles", asJSON, `{"metadata":{"name":"wide"},` + grants + `}`, 201, ""},
		{root, "POST", "clusterrolebindings", asJSON, `{"metadata":{"name":"theirs"},` + ref("secrets") + `}`, 201, ""},
		{eve, "POST", "clusterroles", asJSON, `{"metadata":{"name":"own"},` + own + `}`, 201, ""},
		{eve, "POST", "clusterroles", asJSON, `{"metadata":{"name":"r"},` + grants + `}`, 403, refused},
		{eve, "POST", "clusterroles?dryRun=All", asJSON, `{"metadata":{"name":"r"},` + grants + `}`, 403, refused},
		{eve, "POST", "clusterroles?dryRun=All", asJSON, `{"metadata":{"name":"r"},` + wide + `}`, 403, "only the first 10000 missing permissions are listed, up to those of rules[0] with 300 API groups x 300 resources x 300 verbs"},
		{eve, "PATCH", "clusterroles/own", merge, `{` + grants + `}`, 403, refused},
		{eve, "PATCH", "clusterroles/r?fieldManager=k", apply, `{"apiVersion":"rbac.authorization.k8s.io/v1","kind":"ClusterRole","metadata":{"name":"r"},` + grants + `}`, 403, refused},
		{eve, "PUT", "clusterroles/own", asJSON, `{"metadata":{"name":"own"},` + grants + `}`, 403, refused},
		{eve, "PATCH", "clusterroles/wide", merge, `{"metadata":{"labels":{"in":"sum"}}}`, 403, refused},
		{eve, "PATCH", "clusterroles/wide", merge, `{"metadata":{"finalizers":["example.com/x"]}}`, 200, ""},
		{eve, "POST", "clusterroles", asJSON, `{"metadata":{"name":"r"},"aggregationRule":{"clusterRoleSelectors":[{}]},"rules":null}`, 403, "must have cluster-admin privileges to use the aggregationRule"},
		{eve, "POST", "clusterrolebindings", asJSON, `{"metadata":{"name":"b"},` + ref("pods") + `,` + toEve + `}`, 201, ""},
		{eve, "POST", "clusterrolebindings", asJSON, `{"metadata":{"name":"c"},` + ref("secrets") + `,` + toEve + `}`, 403, refused},
		{eve, "PATCH", "clusterrolebindings/theirs", merge, `{` + toEve + `}`, 403, refused},
		{eve, "POST", "clusterrolebindings", asJSON, `{"metadata":{"name":"c"},` + ref("none") + `,` + toEve + `}`, 404, "not found"},
	} {
		code, data := do(test.client, test.method, test.path, test.kind, test.body)
		if code != test.code || !strings.Contains(data, test.text) {
			t.Errorf("%s %s of %s = %d %s, want %d with %q", test.method, test.path, test.body, code, data, test.code, test.text)
		}
	}
}
