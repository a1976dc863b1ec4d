package crd_test

import (
	"slices"
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
