package customresources_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/plane/customresources"
	"github.com/planekit/planekit/plane/planetest"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const lamps = `apiVersion: v1
kind: ConfigMap
metadata: {name: other}
---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: lamps.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: lamps, kind: Lamp}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          color: {type: string, default: red}
`

func Example() {
	definitions, err := customresources.Parse([]byte(lamps))
	fmt.Println(len(definitions), definitions[0].Spec.Names.Kind, err)
	// Output: 1 Lamp <nil>
}

// TestPlane installs a definition from a directory. Its objects go with their namespace.
func TestPlane(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "lamps.yaml"), []byte(lamps), 0o600); err != nil {
		t.Fatal(err)
	}
	p := planetest.Start(t, planetest.CustomResources(dir))
	namespaces := typed.Namespaces(p.Client())
	if _, err := namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "home"}}); err != nil {
		t.Fatal(err)
	}
	request := client.Request{Method: "POST", Path: "/apis/example.com/v1/namespaces/home/lamps", ContentType: "application/json",
		Body: []byte(`{"apiVersion":"example.com/v1","kind":"Lamp","metadata":{"name":"desk"}}`)}
	response, err := p.Client().Do(t.Context(), request)
	if err != nil || !strings.Contains(string(response.Body), `"color":"red"`) {
		t.Fatalf("POST of a lamp = %s, %v, want the default color red", response.Body, err)
	}
	if err := namespaces.Delete(t.Context(), "", "home", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	planetest.Eventually(t, func() error {
		if _, err := namespaces.Get(t.Context(), "", "home"); !apierrors.IsNotFound(err) {
			return fmt.Errorf("the namespace: %v", err)
		}
		return nil
	})
	request.Method, request.Body = "GET", nil
	if response, err = p.Client().Do(t.Context(), request); err != nil || !strings.Contains(string(response.Body), `"items":[]`) {
		t.Errorf("GET of the lamps = %s, %v, want no items", response.Body, err)
	}
	definitions, err := customresources.Parse([]byte(lamps))
	if err == nil {
		err = customresources.Install(t.Context(), p.Client(), definitions...) // again
	}
	if err != nil {
		t.Error(err)
	}
	definitions[0].Spec.Scope = "Nowhere"
	if err = customresources.Install(t.Context(), p.Client(), definitions...); err == nil || !strings.Contains(err.Error(), "lamps.example.com") {
		t.Error(err)
	}
}

func TestLoadRefuses(t *testing.T) {
	for text, want := range map[string]string{
		strings.Replace(lamps, "/v1\nkind: Custom", "/v1beta1\nkind: Custom", 1): "v1beta1 is not supported",
		lamps + "  nonsense: 1\n": "unknown field",
		"a: [":                    "document 1",
	} {
		file := filepath.Join(t.TempDir(), "definitions")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := customresources.Load(file); err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), file) {
			t.Errorf("%v, want %s", err, want)
		}
	}
	if _, err := customresources.Load("no/such/file"); err == nil {
		t.Error("a missing file is read")
	}
}
