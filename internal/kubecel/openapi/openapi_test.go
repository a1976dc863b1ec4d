package openapi_test

import (
	"fmt"
	"testing"

	"github.com/google/cel-go/cel"
	"github.com/planekit/planekit/internal/kubecel/openapi"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

const document = `{"components":{"schemas":{
"Lamp":{"type":"object","x-kubernetes-group-version-kind":[{"group":"example.com","version":"v1","kind":"Lamp"}],"properties":{
  "next":{"allOf":[{"$ref":"#/components/schemas/Lamp"}]},"watts":{"type":"integer"},"foo-bar":{"type":"string"},"any":{},
  "limits":{"type":"object","additionalProperties":{"$ref":"#/components/schemas/io.k8s.apimachinery.pkg.api.resource.Quantity"}},
  "port":{"format":"int-or-string"},"circle":{"$ref":"#/components/schemas/Circle"},"list":{"type":"array","items":{"$ref":"#/components/schemas/Lamp"}}}},
"Circle":{"$ref":"#/components/schemas/Circle"}}}}`

var lamp = schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "Lamp"}

func environment(text string) (*cel.Env, error) {
	doc, err := openapi.Parse([]byte(text))
	if err != nil {
		return nil, err
	}
	of, _ := doc.Kind(lamp)
	env, err := cel.NewEnv()
	if err != nil {
		return nil, err
	}
	return openapi.Declare(env, openapi.Variable{Type: of, Names: []string{"object"}})
}

func Example() {
	env, err := environment(document)
	if err != nil {
		panic(err)
	}
	_, issues := env.Compile("object.next.next.wats == 1")
	fmt.Println(issues.Err())
	// Output:
	// ERROR: <input>:1:17: undefined field 'wats'
	//  | object.next.next.wats == 1
	//  | ................^
}

func TestTypes(t *testing.T) {
	env, err := environment(document)
	if err != nil {
		t.Fatal(err)
	}
	for expression, valid := range map[string]bool{
		"object.next.list[0].watts == 1": true, "object.watts == 'a'": false, "object.foo__dash__bar == 'a'": true, "object.any": false, "object.circle": false,
		"object.limits['cpu'] == 'a'": true, "object.limits['cpu'] == 1": false, "object.port == 1 || object.port == 'a'": true,
		"object.metadata.name == object.kind": true, "object.metadata.labels": false,
	} {
		if _, issues := env.Compile(expression); (issues.Err() == nil) != valid {
			t.Errorf("Compile(%s) = %v, want valid %t", expression, issues.Err(), valid)
		}
	}
}

// FuzzParse: any document can be read, and an expression compiled by it.
func FuzzParse(f *testing.F) {
	f.Add(document, "object.next.metadata")
	f.Add(`{"components":{"schemas":{"a":null}}}`, "object")
	f.Fuzz(func(_ *testing.T, text, expression string) {
		if env, err := environment(text); err == nil {
			env.Compile(expression)
		}
	})
}
