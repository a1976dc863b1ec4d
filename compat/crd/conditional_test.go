//go:build definitions

package crd

import (
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/crd"
	"github.com/planekit/planekit/apiserver/kube"
)

// TestRealConditional compares the answers of a stock kube-apiserver and of ours to updates without a resourceVersion.
func TestRealConditional(t *testing.T) {
	resources := append(kube.Resources(), crd.Resource(nil))
	sides := sidesOf(t, apiservertest.Start(t, apiservertest.WithResources(resources...)))
	const constraints = `"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"resources":["pods"],"operations":["CREATE"]}]}`
	for _, test := range []struct{ path, body string }{
		{"/api/v1/namespaces/default/configmaps", ``},
		{"/api/v1/namespaces/default/secrets", ``},
		{"/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations", ``},
		{"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicies", `"spec":{` + constraints + `,"validations":[{"expression":"true"}]}`},
		{"/apis/admissionregistration.k8s.io/v1/validatingadmissionpolicybindings", `"spec":{"policyName":"p","validationActions":["Deny"]}`},
		{"/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations", ``},
		{"/apis/coordination.k8s.io/v1/namespaces/default/leases", `"spec":{}`},
		{"/apis/networking.k8s.io/v1/ingressclasses", `"spec":{"controller":"a/b"}`},
		{"/apis/node.k8s.io/v1/runtimeclasses", `"handler":"h"`},
		{"/apis/policy/v1/namespaces/default/poddisruptionbudgets", `"spec":{"minAvailable":1}`},
		{"/apis/storage.k8s.io/v1/csidrivers", `"spec":{}`},
		{"/apis/storage.k8s.io/v1/csinodes", `"spec":{"drivers":[]}`},
		{"/apis/storage.k8s.io/v1/namespaces/default/csistoragecapacities", `"storageClassName":"b"`},
		{"/apis/storage.k8s.io/v1/storageclasses", `"provisioner":"p"`},
		{"/apis/storage.k8s.io/v1/volumeattachments", `"spec":{"attacher":"b","nodeName":"c","source":{"persistentVolumeName":"d"}}`},
	} {
		body := strings.TrimSuffix(`{"metadata":{"name":"one"},`+test.body, ",") + "}"
		for _, s := range sides {
			s.want(201, "POST", test.path, body)
		}
		for _, r := range []request{
			{"PUT", test.path + "/one", body, ""},
			{"PUT", test.path + "/one", strings.Replace(body, `{"metadata":{`, `{"metadata":{"resourceVersion":"0",`, 1), ""},
			{"PUT", test.path + "/one", strings.Replace(body, `{"metadata":{`, `{"metadata":{"resourceVersion":"1",`, 1), ""},
			{"PATCH", test.path + "/one", `{"metadata":{"labels":{"a":"b"}}}`, mergePatch},
			{"PATCH", test.path + "/one", `[{"op":"remove","path":"/metadata/resourceVersion"}]`, jsonPatch},
		} {
			compareAnswers(t, sides, test.path, r)
		}
	}
}
