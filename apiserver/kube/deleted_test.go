package kube_test

import (
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/kube"
)

// TestDeleteResponses: a delete responds with the object for the kinds with ReturnDeletedObject in kube-apiserver, which
// clients generated from OpenAPI expect, and with a Status for all others.
func TestDeleteResponses(t *testing.T) {
	c := client{t, apiservertest.Start(t, apiservertest.WithResources(kube.Resources()...)), "application/json"}
	const core = "/api/v1/namespaces/team/"
	for _, test := range []struct{ path, body, kind string }{
		{core + "services", `{metadata: {name: x}, spec: {ports: [{port: 80}]}}`, "Service"},
		{core + "serviceaccounts", `{metadata: {name: x}}`, "ServiceAccount"},
		{core + "resourcequotas", `{metadata: {name: x}}`, "ResourceQuota"},
		{core + "podtemplates", `{metadata: {name: x}, template: {spec: {containers: [{name: c, image: i}]}}}`, "PodTemplate"},
		{core + "pods", `{metadata: {name: x}, spec: {containers: [{name: c, image: i}]}}`, "Pod"},
		{"/apis/storage.k8s.io/v1/storageclasses", `{metadata: {name: x}, provisioner: example.com/x}`, "StorageClass"},
		{"/apis/storage.k8s.io/v1/csidrivers", `{metadata: {name: x}}`, "CSIDriver"},
		{"/apis/storage.k8s.io/v1/csinodes", `{metadata: {name: x}, spec: {drivers: []}}`, "CSINode"},
		{core + "configmaps", `{metadata: {name: x}}`, "Status"},
		{core + "secrets", `{metadata: {name: x}}`, "Status"},
		{core + "limitranges", `{metadata: {name: x}}`, "Status"},
	} {
		c.do("POST", test.path, test.body, 201)
		answer := string(c.do("DELETE", test.path+"/x", "", 200))
		if !strings.Contains(answer, `"kind":"`+test.kind+`"`) {
			t.Errorf("DELETE %s/x = %s, want a %s", test.path, answer, test.kind)
		}
		if marked := strings.Contains(answer, `"deletionTimestamp"`); marked != (test.kind == "Pod") {
			t.Errorf("DELETE %s/x = %s, want a deletionTimestamp for pods alone", test.path, answer)
		}
		c.do("GET", test.path+"/x", "", 404)
	}
}
