package kube_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/authz"
)

// createdOnUpdate has an object of each kind that a PUT creates.
var createdOnUpdate = map[string]string{
	"leases":              `{metadata: {name: a}, spec: {holderIdentity: me}}`,
	"runtimeclasses":      `{metadata: {name: a}, handler: h}`,
	"roles":               `{metadata: {name: a}, rules: []}`,
	"clusterroles":        `{metadata: {name: a}, rules: []}`,
	"rolebindings":        `{metadata: {name: a}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: Role, name: a}}`,
	"clusterrolebindings": `{metadata: {name: a}, roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: a}}`,
	"endpoints":           `{metadata: {name: a, labels: {of: a}}}`,
	"limitranges":         `{metadata: {name: a}, spec: {limits: []}}`,
	"services":            `{metadata: {name: a}, spec: {clusterIP: None, selector: {app: a}}}`,
	"events":              `{metadata: {name: a}, involvedObject: {kind: Pod, name: p, namespace: team}}`,
}

// TestCreateOnUpdate creates objects by PUT: as their creator they have the manager of the update, and the
// resourceVersion of the body means nothing.
func TestCreateOnUpdate(t *testing.T) {
	c := client{t, apiservertest.Start(t, apiservertest.WithResources(kube.Resources()...)), "application/json"}
	c.do("POST", "/api/v1/namespaces", `{metadata: {name: team}}`, 201)
	var found []string
	for _, r := range kube.Resources() {
		if !r.CreateOnUpdate || r.Group == "events.k8s.io" { // which shows the events of the core group
			continue
		}
		found = append(found, r.Plural)
		path := "/apis/" + r.Group + "/" + r.Version
		if r.Group == "" {
			path = "/api/" + r.Version
		}
		if r.Namespaced {
			path += "/namespaces/team"
		}
		path += "/" + r.Plural + "/a"
		body := strings.Replace(createdOnUpdate[r.Plural], "{metadata: {", `{metadata: {resourceVersion: "7", `, 1)
		c.do("PUT", path+"?dryRun=All", body, http.StatusCreated)
		c.do("GET", path, "", http.StatusNotFound)
		made := object(t, c.do("PUT", path+"?fieldManager=me", body, http.StatusCreated))
		entries := made.GetManagedFields()
		if made.GetUID() == "" || made.GetCreationTimestamp().Unix() <= 0 || len(entries) != 1 || entries[0].Manager != "me" {
			t.Errorf("%s: made %v", r.Plural, made.Object)
		}
		c.do("PUT", path, strings.Replace(body, `"7"`, `"1"`, 1), http.StatusConflict)
		c.do("PUT", strings.TrimSuffix(path, "a")+"b", strings.Replace(createdOnUpdate[r.Plural], "name: a", "name: b, uid: u", 1), http.StatusConflict)
	}
	slices.Sort(found)
	if len(found) != len(createdOnUpdate) {
		t.Errorf("a PUT creates %v", found)
	}
	c.do("PUT", "/api/v1/namespaces/team/configmaps/a", `{metadata: {name: a}}`, http.StatusNotFound)
}

// TestCreateOnUpdateForbidden: the right to update is not enough to create.
func TestCreateOnUpdateForbidden(t *testing.T) {
	updates := authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
		if a.Verb == "update" || a.Resource == "namespaces" {
			return authz.Allow, "", nil
		}
		return authz.Deny, "", nil
	})
	c := client{t, apiservertest.Start(t, apiservertest.WithResources(kube.Resources()...), apiservertest.WithAuthorizer(updates)), "application/json"}
	c.do("POST", "/api/v1/namespaces", `{metadata: {name: team}}`, http.StatusCreated)
	c.do("PUT", "/apis/coordination.k8s.io/v1/namespaces/team/leases/a", createdOnUpdate["leases"], http.StatusForbidden)
}
