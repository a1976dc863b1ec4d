package customresources_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/plane/customresources"
	"github.com/planekit/planekit/plane/planetest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// torches are stored in v1, and converted to the preferred v2 by a webhook that does not answer.
const torches = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: torches.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {plural: torches, kind: Torch}
  conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {url: "https://127.0.0.1:1"}}}
  versions:
  - {name: v1, served: true, storage: true, schema: &schema {openAPIV3Schema: {type: object}}}
  - {name: v2, served: true, storage: false, schema: *schema}
`

// testDeadConversion checks that objects that cannot be converted keep their own namespace, and say so there, while
// other namespaces and dependents are deleted.
func testDeadConversion(t *testing.T, h house) {
	definitions, err := customresources.Parse([]byte(torches))
	if err != nil {
		t.Fatal(err)
	}
	if err := customresources.Install(t.Context(), h.p.Client(), definitions...); err != nil {
		t.Fatal(err)
	}
	namespaces := typed.Namespaces(h.p.Client())
	for _, name := range []string{"dark", "bright"} {
		if _, err := namespaces.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	const torch = `{"apiVersion":"example.com/v1","kind":"Torch","metadata":{"name":"a"}}`
	if _, err := h.do("POST", "/apis/example.com/v1/namespaces/dark/torches", torch); err != nil {
		t.Fatal(err)
	}
	if body, err := h.do("GET", "/apis/example.com/v2/namespaces/dark/torches", ""); err == nil || !strings.Contains(err.Error(), "conversion webhook") {
		t.Fatalf("GET of torches in v2 = %s, %v, want an error about the conversion webhook", body, err)
	}
	h.configMap("dependent", nil, h.configMap("owner", nil))
	for _, path := range []string{"/api/v1/namespaces/dark", "/api/v1/namespaces/bright", mapPath + "owner"} {
		if _, err := h.do("DELETE", path, ""); err != nil {
			t.Fatal(err)
		}
	}
	h.eventuallyGone("/api/v1/namespaces/bright", mapPath+"owner", mapPath+"dependent")
	planetest.Eventually(t, func() error {
		dark, err := namespaces.Get(t.Context(), "", "dark")
		if err != nil {
			return err
		}
		for _, c := range dark.Status.Conditions {
			if c.Type == corev1.NamespaceDeletionContentFailure && c.Status == corev1.ConditionTrue && c.Reason == "ContentDeletionFailed" &&
				strings.Contains(c.Message, "conversion webhook for example.com/v1, Kind=Torch failed") {
				return nil
			}
		}
		return fmt.Errorf("the conditions are %+v", dark.Status.Conditions)
	})
	// Without the definition there is nothing to convert.
	if _, err := h.do("DELETE", "/apis/apiextensions.k8s.io/v1/customresourcedefinitions/torches.example.com", ""); err != nil {
		t.Fatal(err)
	}
	h.eventuallyGone("/apis/apiextensions.k8s.io/v1/customresourcedefinitions/torches.example.com", "/api/v1/namespaces/dark")
}
