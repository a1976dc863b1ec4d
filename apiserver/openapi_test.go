package apiserver_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	"google.golang.org/protobuf/proto"
)

func TestOpenAPIV2(t *testing.T) {
	a := start(t)
	got := a.want(a.do("GET", "/openapi/v2", ""), 200, "")
	var doc struct {
		Swagger string
		Paths   map[string]struct {
			Patch struct{ Consumes []string }
		}
		Definitions map[string]map[string]json.RawMessage
	}
	if err := json.Unmarshal([]byte(got.body), &doc); err != nil {
		t.Fatal(err)
	}
	patch := doc.Paths["/apis/apps/v1/namespaces/{namespace}/deployments/{name}"].Patch
	if doc.Swagger != "2.0" || !slices.Contains(patch.Consumes, "application/apply-patch+yaml") {
		t.Errorf("%s, paths %v", doc.Swagger, len(doc.Paths))
	}
	for name, want := range map[string]string{
		"io.k8s.api.core.v1.Pod":                          `"$ref":"#/definitions/io.k8s.api.core.v1.PodSpec"`,
		"io.k8s.apimachinery.pkg.util.intstr.IntOrString": `"int-or-string"`,
		"io.k8s.api.core.v1.Container":                    `"x-kubernetes-list-map-keys":["containerPort","protocol"]`,
	} {
		text, _ := json.Marshal(doc.Definitions[name])
		if !strings.Contains(string(text), want) {
			t.Errorf("%s lacks %s: %s", name, want, text)
		}
	}
	for _, of3 := range []string{"oneOf", "components"} {
		if strings.Contains(got.body, `"`+of3+`"`) {
			t.Errorf("%s is of version 3", of3)
		}
	}
	if again := a.do("GET", "/openapi/v2", "", "If-None-Match: "+got.header.Get("ETag")); again.code != 304 {
		t.Errorf("again: %d", again.code)
	}
	a.want(a.do("GET", "/openapi/v2", "", "Accept: text/html"), 406, "")
	a.want(a.do("GET", "/openapi/v2/x", ""), 404, "")
}

func TestOpenAPIV2AsProtobuf(t *testing.T) {
	a := start(t)
	got := a.want(a.do("GET", "/openapi/v2", "", "Accept: application/com.github.proto-openapi.spec.v2@v1.0+protobuf"), 200, "")
	doc := &openapi_v2.Document{}
	if err := proto.Unmarshal([]byte(got.body), doc); err != nil {
		t.Fatal(err)
	}
	var names int
	for _, d := range doc.Definitions.AdditionalProperties {
		if d.Name == "io.k8s.api.core.v1.Pod" {
			names++
		}
	}
	if names != 1 || doc.Swagger != "2.0" {
		t.Errorf("%d pods in version %s", names, doc.Swagger)
	}
}
