package kube_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver/kube"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// TestDefaults completes the object in the first document of each file in
// testdata/defaults and expects the second. File names begin with the plural.
func TestDefaults(t *testing.T) {
	files, err := filepath.Glob("testdata/defaults/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			in, want, ok := strings.Cut(string(data), "\n---\n")
			if !ok {
				t.Fatal("no second document")
			}
			plural, _, _ := strings.Cut(filepath.Base(file), "-")
			r := resource(strings.TrimSuffix(plural, ".yaml"))
			obj := decode(t, r.New, in)
			r.Strategy.Default(obj)
			expectYAML(t, obj, decode(t, r.New, want))
			again := obj.DeepCopyObject()
			r.Strategy.Default(again)
			expectYAML(t, again, obj)
		})
	}
}

func decode(t *testing.T, empty func() runtime.Object, doc string) runtime.Object {
	t.Helper()
	obj := empty()
	if err := unmarshal(doc, obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

func unmarshal(doc string, obj runtime.Object) error {
	return yaml.UnmarshalStrict([]byte(doc), obj)
}

func expectYAML(t *testing.T, have, want runtime.Object) {
	t.Helper()
	h, err := yaml.Marshal(have)
	if err != nil {
		t.Fatal(err)
	}
	w, err := yaml.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	if string(h) != string(w) {
		t.Errorf("have:\n%s\nwant:\n%s", h, w)
	}
}

func TestNamespaces(t *testing.T) {
	var names []string
	ns := resource("namespaces").Strategy
	for _, n := range kube.Namespaces() {
		names = append(names, n.Name)
		if n.Labels["kubernetes.io/metadata.name"] != n.Name || n.Status.Phase != "Active" || len(n.Spec.Finalizers) != 1 {
			t.Errorf("%s is not complete: %v", n.Name, n)
		}
		if errs := ns.Validate(t.Context(), n); len(errs) > 0 {
			t.Errorf("%s: %v", n.Name, errs)
		}
	}
	if have := strings.Join(names, " "); have != "default kube-system kube-public kube-node-lease" {
		t.Errorf("have %s", have)
	}
}

func TestPriorityClasses(t *testing.T) {
	for _, c := range kube.PriorityClasses() {
		if errs := resource("priorityclasses").Strategy.Validate(t.Context(), c); len(errs) > 0 {
			t.Errorf("%s: %v", c.Name, errs)
		}
	}
}
