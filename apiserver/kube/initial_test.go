package kube_test

import (
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver/kube"
)

func TestNamespaces(t *testing.T) {
	var names []string
	ns := resource("namespaces").Strategy
	for _, n := range kube.Namespaces() {
		names = append(names, n.Name)
		if n.Labels["kubernetes.io/metadata.name"] != n.Name || n.Status.Phase != "Active" || len(n.Spec.Finalizers) != 1 {
			t.Errorf("%s is not complete: %v", n.Name, n)
		}
		if errs := ns.Validate(t.Context(), n); len(errs) > 0 {
			t.Errorf("Validate of the namespace %s = %v, want no errors", n.Name, errs)
		}
	}
	if have := strings.Join(names, " "); have != "default kube-system kube-public kube-node-lease" {
		t.Errorf("have %s", have)
	}
}

func TestPriorityClasses(t *testing.T) {
	for _, c := range kube.PriorityClasses() {
		if errs := resource("priorityclasses").Strategy.Validate(t.Context(), c); len(errs) > 0 {
			t.Errorf("Validate of the priority class %s = %v, want no errors", c.Name, errs)
		}
	}
}
