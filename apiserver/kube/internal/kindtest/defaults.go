package kindtest

import (
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// defaults completes the object in the first document of each file in testdata/defaults and expects
// the second. File names begin with the plural.
func defaults(t *testing.T, resources []apiserver.Resource) {
	for file, data := range read(t, "defaults") {
		t.Run(file, func(t *testing.T) {
			in, want, ok := strings.Cut(data, "\n---\n")
			if !ok {
				t.Fatal("no second document")
			}
			plural, _, _ := strings.Cut(strings.TrimSuffix(file, ".yaml"), "-")
			r := find(t, resources, plural)
			obj := Decode(t, r.New, in)
			r.Strategy.Default(obj)
			ExpectYAML(t, obj, Decode(t, r.New, want))
			again := obj.DeepCopyObject()
			r.Strategy.Default(again)
			ExpectYAML(t, again, obj)
		})
	}
}

// Decode returns the object in the YAML document doc, which may have no unknown fields.
func Decode(t *testing.T, empty func() runtime.Object, doc string) runtime.Object {
	t.Helper()
	obj := empty()
	if err := Unmarshal(doc, obj); err != nil {
		t.Fatal(err)
	}
	return obj
}

// Unmarshal reads the object in the YAML document doc into obj.
func Unmarshal(doc string, obj runtime.Object) error {
	return yaml.UnmarshalStrict([]byte(doc), obj)
}

// ExpectYAML compares two objects.
func ExpectYAML(t *testing.T, have, want runtime.Object) {
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
