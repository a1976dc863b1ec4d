package structural_test

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/planekit/planekit/internal/structural"
	"github.com/planekit/planekit/kinds/apiextensions"
	"k8s.io/apimachinery/pkg/runtime"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var pathA = field.NewPath("a")

func compile(t testing.TB, text string) *structural.Schema {
	t.Helper()
	var source apiextensions.JSONSchemaProps
	err := json.Unmarshal([]byte(text), &source)
	if err != nil {
		t.Fatal(err)
	}
	s, err := structural.Compile(context.Background(), &source)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func decode(t testing.TB, text string) map[string]any {
	t.Helper()
	var v map[string]any
	if err := utiljson.Unmarshal([]byte(text), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func Example() {
	s, err := structural.Compile(context.Background(), &apiextensions.JSONSchemaProps{Type: "object", Properties: map[string]apiextensions.JSONSchemaProps{
		"color": {Type: "string", Default: &apiextensions.JSON{Raw: []byte(`"red"`)}},
		"size":  {Type: "integer"},
	}})
	if err != nil {
		panic(err)
	}
	obj := map[string]any{"size": "large", "weight": int64(3)}
	unknown, err := s.Complete(context.Background(), obj, true)
	fmt.Println(unknown, err, obj)
	fmt.Println(s.Validate(context.Background(), nil, obj))
	// Output:
	// [weight] <nil> map[color:red size:large]
	// [size: Invalid value: "string": size in body must be of type integer: "string"]
}

func TestComplete(t *testing.T) {
	for _, test := range []struct{ schema, object, want, unknown string }{
		{`{"properties":{"a":{"type":"string"}}}`, `{"a":"x","b":{"c":1},"metadata":{"x":1}}`, `{"a":"x","metadata":{"x":1}}`, "[b]"},
		{`{"properties":{"a":{"x-kubernetes-preserve-unknown-fields":true,"properties":{"b":{"type":"object"}}}}}`, `{"a":{"b":{"c":1},"d":{"e":1}}}`, `{"a":{"b":{},"d":{"e":1}}}`, "[a.b.c]"},
		{`{"properties":{"a":{"type":"array","items":{"type":"object","properties":{"b":{"default":2}}}}}}`, `{"a":[{},{"b":1},{"c":1}]}`, `{"a":[{"b":2},{"b":1},{"b":2}]}`, "[a[2].c]"},
		{`{"properties":{"a":{"type":"string"},"b":{"type":"string","nullable":true},"c":{"default":1}}}`, `{"a":null,"b":null,"c":null}`, `{"b":null,"c":1}`, "[]"},
		{`{"properties":{"a":{"additionalProperties":{"type":"object","properties":{"b":{}}}}}}`, `{"a":{"x":{"b":1,"c":1}}}`, `{"a":{"x":{"b":1}}}`, "[a.x.c]"},
		{`{"properties":{"a":{"default":{"b":{}},"properties":{"b":{"properties":{"c":{"default":1}}}}}}}`, `{}`, `{"a":{"b":{"c":1}}}`, "[]"},
		{`{"x-kubernetes-preserve-unknown-fields":true}`, `{"a":{"b":[{"c":1}]}}`, `{"a":{"b":[{"c":1}]}}`, "[]"},
		{`{"properties":{"a":{"default":{"b":null},"properties":{"b":{"type":"string"}}}}}`, `{}`, `{"a":{"b":null}}`, "[]"},
		{`{"properties":{"a":{"x-kubernetes-embedded-resource":true,"properties":{"metadata":{"properties":{"other":{"default":1},"labels":{"properties":{"l":{"default":"x"}}}}}}}}}`,
			`{"a":{"metadata":{"labels":{}}}}`, `{"a":{"metadata":{"labels":{"l":"x"}}}}`, "[]"},
		{`{"properties":{"a":{"type":"array","x-kubernetes-preserve-unknown-fields":true}}}`, `{"a":[{"b":1}]}`, `{"a":[{"b":1}]}`, "[]"},
	} {
		obj := decode(t, test.object)
		unknown, err := compile(t, test.schema).Complete(t.Context(), obj, true)
		if got := fmt.Sprint(unknown); err != nil || got != test.unknown {
			t.Errorf("%s of %s: unknown are %s, want %s", test.schema, test.object, got, test.unknown)
		}
		if !reflect.DeepEqual(obj, decode(t, test.want)) {
			t.Errorf("%s of %s: %v, want %s", test.schema, test.object, obj, test.want)
		}
	}
}

// TestRatcheting: what has not changed is not checked again, in fields, atomic lists and lists of type map.
func TestRatcheting(t *testing.T) {
	s := compile(t, `{"properties":{"a":{"maximum":5},"l":{"type":"array","items":{"maximum":5}},"m":{"type":"array","x-kubernetes-list-type":"map",
		"x-kubernetes-list-map-keys":["k"],"items":{"properties":{"k":{},"v":{"maximum":5}}}},"o":{}}}`)
	old := decode(t, `{"a":9,"l":[9,9],"m":[{"k":"x","v":9},{"k":"y","v":9}],"o":1}`)
	for object, want := range map[string]int{
		`{"a":9,"l":[9,9],"m":[{"k":"y","v":9},{"k":"x","v":9}],"o":2}`: 0,
		`{"a":8,"l":[9,9],"m":[{"k":"x","v":9}],"o":2}`:                 1,
		`{"a":9,"l":[9,9,1],"o":2}`:                                     2,
		`{"a":9,"m":[{"k":"z","v":9},{"k":"x","v":9},{"k":"y","v":7}]}`: 2,
	} {
		if errs := s.ValidateUpdate(t.Context(), nil, decode(t, object), old, true); len(errs) != want {
			t.Errorf("%s: %v, want %d errors", object, errs, want)
		}
	}
}

func TestCheck(t *testing.T) {
	for schema, want := range map[string]string{
		`{"type":"object","properties":{"a":{}}}`:                                                                                 `a.properties[a].type: Required value: must not be empty for specified object fields`,
		`{"type":"array","items":{"type":"string"}}`:                                                                              `a.type: Invalid value: "array": must be object at the root`,
		`{"type":"object","additionalProperties":{"type":"string"}}`:                                                              `a.additionalProperties: Forbidden: must not be used at the root`,
		`{"type":"object","anyOf":[{"properties":{"x":{}}}]}`:                                                                     `a.properties[x]: Required value: because it is defined in a.anyOf[0].properties[x]`,
		`{"type":"object","not":{"type":"string"}}`:                                                                               `a.not.type: Forbidden: must be empty to be structural`,
		`{"type":"object","properties":{"metadata":{"type":"object","title":"x"}}}`:                                               `must not specify anything other than name and generateName`,
		`{"type":"object","properties":{"a":{"type":"string","pattern":"("}}}`:                                                    `must be a valid regular expression, but isn't`,
		`{"type":"object","properties":{"a":{"x-kubernetes-int-or-string":true,"anyOf":[{"type":"integer"},{"type":"string"}]}}}`: ``,
	} {
		var source apiextensions.JSONSchemaProps
		if err := json.Unmarshal([]byte(schema), &source); err != nil {
			t.Fatal(err)
		}
		errs := structural.Check(pathA, &source)
		if want == "" && len(errs) > 0 || want != "" && !strings.Contains(fmt.Sprint(errs), want) {
			t.Errorf("%s: %v, want %s", schema, errs, want)
		}
	}
}

// FuzzComplete: completing an object is stable, and whatever the schema, nothing panics.
func FuzzComplete(f *testing.F) {
	f.Add([]byte(`{"properties":{"a":{"default":{"b":null}},"l":{"type":"array","items":{"nullable":true,"default":1}}}}`), []byte(`{"a":null,"l":[null]}`))
	f.Add([]byte(`{"x-kubernetes-embedded-resource":true,"anyOf":[{"required":["a"]}]}`), []byte(`{"metadata":{"name":1},"x":[[{}]]}`))
	f.Fuzz(func(t *testing.T, schema, object []byte) {
		var source apiextensions.JSONSchemaProps
		var obj map[string]any
		if len(schema)+len(object) > 10_000 || json.Unmarshal(schema, &source) != nil || utiljson.Unmarshal(object, &obj) != nil || obj == nil {
			return
		}
		structural.Check(pathA, &source)
		s, err := structural.Compile(context.Background(), &source)
		if err != nil {
			return
		}
		s = s.Shared()
		if _, err := s.Complete(t.Context(), obj, true); err != nil {
			return
		}
		once := runtime.DeepCopyJSON(obj)
		if unknown, err := s.Complete(t.Context(), obj, true); err == nil && len(unknown) > 0 {
			t.Errorf("%s: left %v", schema, unknown)
		}
		s.Validate(t.Context(), nil, obj)
		s.ValidateUpdate(t.Context(), nil, obj, once, true)
		s.ValidateLists(nil, obj)
		s.ValidateMetadata(nil, obj, true)
		_, _ = s.CoerceMetadata(obj)
	})
}

// TestShared checks that schemas with the same content are one, and that others are not.
func TestShared(t *testing.T) {
	s := compile(t, `{"type":"object","properties":{
		"a":{"type":"object","properties":{"name":{"type":"string","maxLength":5},"size":{"type":"integer"}}},
		"b":{"type":"object","description":"as a","properties":{"name":{"type":"string","maxLength":5},"size":{"type":"integer"}}},
		"c":{"type":"object","properties":{"name":{"type":"string","maxLength":6},"size":{"type":"integer"}}},
		"d":{"type":"object","properties":{"nam":{"type":"string","maxLength":5},"size":{"type":"integer"}}},
		"e":{"type":"array","items":{"type":"string"}}, "f":{"type":"object","additionalProperties":{"type":"string"}},
		"g":{"type":"string","default":"x"}, "h":{"type":"string","default":"y"}, "i":{"type":"string","default":"x"},
		"whole":{"type":"object","x-kubernetes-embedded-resource":true,"properties":{"kind":{"type":"string"},"apiVersion":{"type":"string"},
			"metadata":{"type":"object","default":{"namespace":"n","none":1}},"other":{"type":"object","default":{"namespace":"n","none":1}}}}}}`)
	p := s.Shared().Properties
	for _, same := range [][2]*structural.Schema{{p["a"], p["b"]}, {p["a"].Properties["size"], p["c"].Properties["size"]}, {p["g"], p["i"]}, {p["a"].Properties["name"], p["d"].Properties["nam"]}} {
		if same[0] != same[1] {
			t.Errorf("%v and %v are two", same[0], same[1])
		}
	}
	for _, different := range [][2]*structural.Schema{{p["a"], p["c"]}, {p["a"], p["d"]}, {p["e"], p["f"]}, {p["g"], p["h"]}, {p["whole"].Properties["metadata"], p["whole"].Properties["other"]}} {
		if different[0] == different[1] {
			t.Errorf("%v stands for two", different[0])
		}
	}
}
