package layout

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

func TestRoot(t *testing.T) {
	below := func(path string) func(schema.GroupResource) string {
		return func(schema.GroupResource) string { return path }
	}
	pods := schema.GroupResource{Resource: "pods"}
	for _, test := range []struct {
		layout   Layout
		resource schema.GroupResource
		want     string // empty means an error
	}{
		{Layout{Prefix: "/registry"}, pods, "/registry/core/pods/"},
		{Layout{}, schema.GroupResource{Group: "apps", Resource: "deployments"}, "/apps/deployments/"},
		{Layout{Prefix: "/registry", Below: below("services/specs")}, pods, "/registry/services/specs/"},
		{Layout{Below: below("")}, pods, ""},
		{Layout{Below: below("/pods")}, pods, ""},
		{Layout{Below: below("pods/")}, pods, ""},
		{Layout{Below: below("a//b")}, pods, ""},
		{Layout{Below: below("../pods")}, pods, ""},
		{Layout{Below: below("a/./b")}, pods, ""},
	} {
		got, err := test.layout.Root(test.resource)
		if got != test.want || (err == nil) != (test.want != "") {
			t.Errorf("%+v: %q %v, want %q", test.layout, got, err, test.want)
		}
	}
	if got := (Layout{Prefix: "/registry", Below: below("elsewhere")}).Held(pods); got != "/registry/held/core/pods/" {
		t.Errorf("held under %q", got)
	}
}

func TestPlaces(t *testing.T) {
	places := Places{}
	for root, owner := range map[string]string{"/a/pods/": "pods", "/a/pods.b/": "others", "/b/": "b"} {
		if err := places.Add(root, owner); err != nil {
			t.Error(err)
		}
	}
	if err := places.Add("/b/", "b"); err != nil {
		t.Errorf("a root that its owner adds again: %v", err)
	}
	if err := places.Check(); err != nil {
		t.Error(err)
	}
	if err := places.Add("/b/", "a"); err == nil || err.Error() != "a and b would both be stored under /b/" {
		t.Errorf("two owners: %v", err)
	}
	if err := places.Add("/a/pods/x/", "x"); err != nil {
		t.Fatal(err)
	}
	if err := places.Check(); err == nil || err.Error() != "x would be stored under /a/pods/x/, which is inside /a/pods/ of pods" {
		t.Errorf("one inside another: %v", err)
	}
}

// FuzzPlaces: Check finds each root that is inside another.
func FuzzPlaces(f *testing.F) {
	f.Add("/a/", "/a/b/", "/c/")
	f.Add("/a/", "/ab/", "/a./")
	f.Fuzz(func(t *testing.T, a, b, c string) {
		places := Places{a: "1", b: "2", c: "3"}
		inside := false
		for x := range places {
			for y := range places {
				inside = inside || x != "" && x != y && len(y) > len(x) && y[:len(x)] == x
			}
		}
		if err := places.Check(); (err != nil) != inside {
			t.Errorf("%q.Check() = %v, want an error: %v", places, err, inside)
		}
	})
}
