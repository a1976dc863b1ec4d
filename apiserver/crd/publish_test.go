package crd_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// TestPublishedPatches: OpenAPI does not offer the patches that custom objects refuse; kubectl would send them.
func TestPublishedPatches(t *testing.T) {
	a := start(t, nil)
	a.install(widgets(widgetSchema, ""))
	const one = "/apis/example.com/v1/namespaces/{namespace}/widgets/{name}"
	want := []string{"application/json-patch+json", "application/merge-patch+json", "application/apply-patch+yaml"}
	v2 := decode[struct {
		Paths map[string]struct{ Patch struct{ Consumes []string } }
	}](t, a.do("GET", "/openapi/v2", ""))
	if got := v2.Paths[one].Patch.Consumes; !slices.Equal(got, want) {
		t.Errorf("v2 has %v", got)
	}
	v3 := decode[struct {
		Paths map[string]struct {
			Patch struct {
				RequestBody struct{ Content map[string]any }
			}
		}
	}](t, a.do("GET", "/openapi/v3/apis/example.com/v1", ""))
	for _, media := range want {
		delete(v3.Paths[one].Patch.RequestBody.Content, media)
	}
	if left := v3.Paths[one].Patch.RequestBody.Content; left == nil || len(left) > 0 {
		t.Errorf("v3 has, too: %v", left)
	}
}

// TestPublishedAsProtobuf: the document of all groups is there in protobuf whichever keywords a definition has.
func TestPublishedAsProtobuf(t *testing.T) {
	a := start(t, nil)
	for i, keywords := range []string{
		`"type":"string","minLength":1,"maxLength":2,"pattern":"^a"`, `"type":"number","minimum":1,"maximum":2.5,"exclusiveMinimum":true,"multipleOf":0.5`,
		`"type":"array","items":{"type":"string"},"minItems":1,"maxItems":3`, `"type":"object","additionalProperties":true,"maxProperties":3`,
		`"type":"string","example":"a","externalDocs":{"url":"https://example.com"},"nullable":true`, `"type":"string","anyOf":[{"minLength":3},{"pattern":"b"}],"not":{"pattern":"c"}`,
	} {
		plural := fmt.Sprintf("words%d", i)
		a.install(define(plural, fmt.Sprint("Word", i), `{"type":"object","properties":{"spec":{"type":"object","properties":{"f":{`+keywords+`}}}}}`, ""))
		if got := a.do("GET", "/openapi/v2", "", "Accept: application/com.github.proto-openapi.spec.v2@v1.0+protobuf"); got.code != 200 || !strings.Contains(got.body, fmt.Sprint("com.example.v1.Word", i)) {
			t.Errorf("GET /openapi/v2 in protobuf with a field of {%s} = %d %.200s, want 200 and the definition", keywords, got.code, got.body)
		}
	}
}
