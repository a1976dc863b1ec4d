package crd_test

import (
	"fmt"
	"testing"

	"github.com/planekit/planekit/kinds/apiextensions"
)

// TestObservedGeneration: the generations that a client reports in the status of a definition and in its
// conditions are stored, and stay when the definition changes. The server reports none itself, as in
// Kubernetes.
func TestObservedGeneration(t *testing.T) {
	a := start(t, nil)
	a.install(widgets(widgetSchema, ""))
	const name = definitions + "/widgets.example.com"
	observed := func(when string, want string) {
		t.Helper()
		d := decode[apiextensions.CustomResourceDefinition](t, a.want(a.do("GET", name, ""), 200, ""))
		got := fmt.Sprint(d.Status.ObservedGeneration, condition(d, apiextensions.Established).ObservedGeneration)
		if got != want {
			t.Errorf("observedGeneration of the definition and of its condition Established %s = %s, want %s", when, got, want)
		}
	}
	observed("at first", "0 0")
	const merge = "Content-Type: application/merge-patch+json"
	a.want(a.do("PATCH", name+"/status", `{"status":{"observedGeneration":1,"conditions":[
		{"type":"Established","status":"True","observedGeneration":1},{"type":"NamesAccepted","status":"True"}]}}`, merge), 200, "")
	observed("after a client has written them", "1 1")
	a.want(a.do("PATCH", name, `{"spec":{"names":{"categories":["every"]}}}`, merge), 200, `"generation":2`)
	observed("after a change", "1 1")
}
