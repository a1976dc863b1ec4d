package crd_test

import (
	"strings"
	"testing"

	"github.com/planekit/planekit/kinds/apiextensions"
)

// TestEmptyWebhook: a webhook without any value is none, and so no change of the definition.
func TestEmptyWebhook(t *testing.T) {
	a := start(t, nil)
	a.install(widgets(widgetSchema, widgetMore))
	const at = definitions + "/widgets.example.com"
	before := decode[apiextensions.CustomResourceDefinition](t, a.do("GET", at, ""))
	for _, webhook := range []string{`{}`, `{"conversionReviewVersions":null}`} {
		patch := `{"spec":{"conversion":{"strategy":"None","webhook":` + webhook + `}}}`
		after := decode[apiextensions.CustomResourceDefinition](t, a.want(a.do("PATCH", at, patch, merge), 200, ""))
		if after.Generation != before.Generation || after.Spec.Conversion.Webhook != nil {
			t.Errorf("PATCH with the webhook %s = generation %d, webhook %v, want generation %d and none",
				webhook, after.Generation, after.Spec.Conversion.Webhook, before.Generation)
		}
	}
}

// TestDefaultOfRoot: the default of a whole object is one, with a version and a kind.
func TestDefaultOfRoot(t *testing.T) {
	a := start(t, nil)
	for value, want := range map[string]string{
		`{}`: "openAPIV3Schema.default.apiVersion: Required value",
		`{"apiVersion":"example.com/v1","kind":"Not this"}`: "openAPIV3Schema.default.kind: Invalid value",
		`{"apiVersion":"example.com/v1","unknown":1}`:       "must not have unknown fields",
	} {
		schema := strings.Replace(widgetSchema, `{"type":"object",`, `{"type":"object","default":`+value+`,`, 1)
		a.want(a.do("POST", definitions, widgets(schema, "")), 422, want)
	}
}
