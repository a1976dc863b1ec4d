package kube_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/authz/rbac"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// TestRolesNameKinds compares the resources in the bootstrap roles of Kubernetes with those that are
// served: a role with a misspelled resource grants nothing, and a kind that no user-facing role names
// is out of reach for the users of a namespace.
func TestRolesNameKinds(t *testing.T) {
	// Groups that other packages or other servers serve, or that Kubernetes removed.
	elsewhere := []string{
		"*", "authentication.k8s.io", "authorization.k8s.io", "custom.metrics.k8s.io",
		"extensions", "external.metrics.k8s.io", "metrics.k8s.io", "resource.k8s.io",
	}
	// Resources of served groups that are not served.
	absent := []schema.GroupResource{
		{Resource: "bindings"},
		{Group: "certificates.k8s.io", Resource: "signers"},
		{Group: "coordination.k8s.io", Resource: "leasecandidates"},
		{Group: "storage.k8s.io", Resource: "volumeattributesclasses"},
	}
	// Namespaced kinds that only administrators of the cluster write.
	private := []schema.GroupResource{{Resource: "podtemplates"}, {Group: "storage.k8s.io", Resource: "csistoragecapacities"}}

	var served []schema.GroupResource
	for _, r := range kube.Resources() {
		served = append(served, schema.GroupResource{Group: r.Group, Resource: r.Plural})
	}
	userFacing := map[schema.GroupResource]bool{}
	roles, _ := rbac.BootstrapPolicy()
	for _, role := range roles {
		for _, rule := range role.Rules {
			for _, group := range rule.APIGroups {
				if slices.Contains(elsewhere, group) {
					continue
				}
				for _, name := range rule.Resources {
					resource, _, _ := strings.Cut(name, "/")
					r := schema.GroupResource{Group: group, Resource: resource}
					if !slices.Contains(served, r) && !slices.Contains(absent, r) {
						t.Errorf("role %s names %s, which is not served", role.Name, r)
					}
					if strings.HasPrefix(role.Name, "system:aggregate-to-") {
						userFacing[r] = true
					}
				}
			}
		}
	}
	for _, r := range kube.Resources() {
		resource := schema.GroupResource{Group: r.Group, Resource: r.Plural}
		if r.Namespaced && !userFacing[resource] && !slices.Contains(private, resource) {
			t.Errorf("no user-facing role names %s", resource)
		}
	}
}
