package openapi

import (
	"encoding/json"
	"reflect"
	"strings"
	"testing"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"
)

// asRead returns what gnostic reads of the protobuf form.
func asRead(t *testing.T, data []byte) (document any) {
	t.Helper()
	read := &openapi_v2.Document{}
	if err := proto.Unmarshal(data, read); err != nil {
		t.Fatal(err)
	}
	if unknown := read.ProtoReflect().GetUnknown(); len(unknown) > 0 {
		t.Errorf("unknown fields: %x", unknown)
	}
	text, err := read.YAMLValue("")
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	return document
}

// TestProtobuf: gnostic reads the document that was written, all of it.
func TestProtobuf(t *testing.T) {
	verbs := []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
	written, err := BuildV2("Kubernetes", "v1.36.0", []Resource{{
		Path: "/api/v1", Plural: "pods", Namespaced: true, Verbs: verbs, Kind: Kind{"", "v1", "Pod"},
		Type: reflect.TypeFor[corev1.Pod](), List: reflect.TypeFor[corev1.PodList](),
		Subs: []Sub{{Name: "status", Verbs: []string{"get", "update"}, Kind: Kind{"", "v1", "Pod"}, Type: reflect.TypeFor[corev1.Pod]()}},
	}, {
		Path: "/apis/apps/v1", Plural: "deployments", Namespaced: true, Verbs: verbs, Kind: Kind{"apps", "v1", "Deployment"},
		Type: reflect.TypeFor[appsv1.Deployment](), List: reflect.TypeFor[appsv1.DeploymentList](),
	}}, reflect.TypeFor[metav1.DeleteOptions]())
	if err != nil {
		t.Fatal(err)
	}
	checkProtobuf(t, written)
}

// TestProtobufForms: forms that BuildV2 does not write of today's types.
func TestProtobufForms(t *testing.T) {
	checkProtobuf(t, []byte(`{"swagger": "2.0", "info": {"title": "t", "version": "v", "description": "d", "x-i": [1, "two", null]},
		"host": "h", "basePath": "/", "schemes": ["https"], "consumes": ["a/b"], "produces": ["c/d", "e/f"], "x-document": {"deep": [{}]},
		"paths": {"/a/{b}": {
			"get": {"summary": "s", "description": "d", "operationId": "o", "deprecated": true, "schemes": ["http"], "responses": {
				"200": {"description": "OK", "schema": {"$ref": "#/definitions/A"}, "x-r": true}, "401": {"description": "Unauthorized"}}},
			"head": {"responses": {"200": {"description": "OK"}}}, "options": {"responses": {"200": {"description": "OK"}}},
			"parameters": [{"name": "b", "in": "path", "required": true, "type": "string", "format": "f", "uniqueItems": true, "description": "d", "x-p": 1}],
			"x-path": "é \u2028 \"quoted\": - #"}},
		"definitions": {"A": {"title": "t", "type": "object", "format": "f", "uniqueItems": true, "readOnly": true, "required": ["a"],
			"enum": ["a", 1.5, null, {"b": []}], "default": {"a": [1]}, "allOf": [{"$ref": "#/definitions/A"}, {"type": "string"}],
			"additionalProperties": {"type": "array", "items": {"type": "integer"}},
			"properties": {"a": {"description": "d"}}, "x-kubernetes-list-map-keys": ["a", "b"]}}}`))
}

// TestProtobufSchemas: every keyword of a schema, each alone and beside others, is what gnostic reads. What OpenAPI v2
// lacks is left out.
func TestProtobufSchemas(t *testing.T) {
	keywords := []string{
		`"type":"string"`, `"minLength":1`, `"maxLength":9007199254740991`, `"pattern":"^a\\d$"`, `"format":"date"`, `"minimum":1`, `"minimum":-1.5`, `"maximum":1e300`,
		`"exclusiveMinimum":true`, `"exclusiveMaximum":true`, `"multipleOf":0.25`, `"minItems":2`, `"maxItems":3`, `"uniqueItems":true`,
		`"minProperties":1`, `"maxProperties":2`, `"additionalProperties":true`, `"additionalProperties":{"type":"string","maxLength":3}`,
		`"example":{"a":[1,null]}`, `"externalDocs":{"description":"d","url":"https://example.com"}`, `"title":"t"`, `"discriminator":"kind"`,
		`"items":{"type":"integer","minimum":2}`, `"properties":{"f":{"type":"object","additionalProperties":true}}`, `"required":["a"]`, `"enum":["a",1]`,
	}
	document := func(schema string) []byte {
		return []byte(`{"swagger":"2.0","info":{"title":"t","version":"v"},"paths":{"/":{"get":{"responses":{"200":{"description":"OK"}}}}},"definitions":{"A":{` + schema + `}}}`)
	}
	for i, keyword := range keywords {
		checkProtobuf(t, document(keyword))
		for _, other := range keywords[i+1:] {
			if name, _, _ := strings.Cut(keyword, ":"); !strings.HasPrefix(other, name+":") {
				checkProtobuf(t, document(keyword+","+other))
			}
		}
	}
	data, err := Protobuf(document(`"type":"string","nullable":true,"anyOf":[{}],"patternProperties":{"a":{}}`))
	if err != nil {
		t.Fatalf("Protobuf() of keywords that OpenAPI v2 lacks = %v, want nil", err)
	}
	var want any
	if err := json.Unmarshal(document(`"type":"string"`), &want); err != nil {
		t.Fatal(err)
	}
	compare(t, "", asRead(t, data), want)
}

func checkProtobuf(t *testing.T, written []byte) {
	t.Helper()
	data, err := Protobuf(written)
	if err != nil {
		t.Fatal(err)
	}
	var want any
	if err := json.Unmarshal(written, &want); err != nil {
		t.Fatal(err)
	}
	if got := asRead(t, data); !reflect.DeepEqual(got, want) {
		compare(t, "", got, want)
		t.Error("the document is another one")
	}
}

// compare names the properties that differ.
func compare(t *testing.T, path string, got, want any) {
	g, ok1 := got.(map[string]any)
	w, ok2 := want.(map[string]any)
	if !ok1 || !ok2 {
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %v, want %v", path, got, want)
		}
		return
	}
	for name := range g {
		if _, ok := w[name]; !ok {
			t.Errorf("%s/%s: %v, want none", path, name, g[name])
		}
	}
	for name := range w {
		compare(t, path+"/"+name, g[name], w[name])
	}
}

func TestProtobufRefuses(t *testing.T) {
	for document, want := range map[string]string{
		`{`:                     "openapi v2: unexpected end",
		`[]`:                    "openapi v2: json: cannot unmarshal array",
		`{"swagger": 2}`:        "openapi v2: swagger: float64 is no string",
		`{"security": []}`:      "openapi v2: security: unknown property",
		`{"schemes": "https"}`:  "openapi v2: schemes: string is no array",
		`{"schemes": [1]}`:      "openapi v2: schemes: 0: float64 is no string",
		`{"info": []}`:          "openapi v2: info: []interface {} is no object",
		`{"definitions": null}`: "openapi v2: definitions: <nil> is no object",
		`{"definitions": {"A": {"readOnly": "yes"}}}`:   "openapi v2: definitions: A: readOnly: string is no boolean",
		`{"paths": {"/": {"parameters": [{"in": 3}]}}}`: `openapi v2: paths: /: parameters: 0: parameter in ""`,
	} {
		if data, err := Protobuf([]byte(document)); err == nil || !strings.HasPrefix(err.Error(), want) || data != nil {
			t.Errorf("%s: %x %v, want %s", document, data, err, want)
		}
	}
}

// FuzzProtobuf: what is written at all, gnostic can read.
func FuzzProtobuf(f *testing.F) {
	f.Add([]byte(`{"swagger": "2.0", "paths": {"/": {"get": {"responses": {"200": {"description": "OK"}}}}}}`))
	f.Add([]byte(`{"definitions": {"A": {"type": "object", "default": [1], "properties": {"a": {"$ref": "#/definitions/A"}}, "x-a": null}}}`))
	f.Add([]byte(`{"paths": {"/": {"parameters": [{"in": "body", "name": "body", "schema": {}}, {"in": "query", "name": "q", "type": "string"}]}}}`))
	f.Fuzz(func(t *testing.T, document []byte) {
		data, err := Protobuf(document)
		if err != nil {
			return
		}
		if err := proto.Unmarshal(data, &openapi_v2.Document{}); err != nil {
			t.Errorf("Unmarshal of Protobuf(%q) = %x: %v", document, data, err)
		}
	})
}
