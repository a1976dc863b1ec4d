package kube_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/kube"
	"sigs.k8s.io/yaml"
)

// conditional has an object of each kind that is only replaced in a version that the client names.
var conditional = map[string]string{
	"apiservices": `{metadata: {name: v1.example.com}, spec: {group: example.com, version: v1, groupPriorityMinimum: 1, versionPriority: 1,
service: {name: a, namespace: b}, insecureSkipTLSVerify: true}}`,
	"clustertrustbundles":               `{metadata: {name: a}, spec: {trustBundle: AUTHORITY}}`,
	"csidrivers":                        `{metadata: {name: a}, spec: {}}`,
	"csinodes":                          `{metadata: {name: a}, spec: {drivers: []}}`,
	"csistoragecapacities":              `{metadata: {name: a}, storageClassName: b}`,
	"initializerconfigurations":         `{metadata: {name: a}}`,
	"leases":                            `{metadata: {name: a}, spec: {holderIdentity: me}}`,
	"mutatingwebhookconfigurations":     `{metadata: {name: a}}`,
	"poddisruptionbudgets":              `{metadata: {name: a}, spec: {minAvailable: 1}}`,
	"runtimeclasses":                    `{metadata: {name: a}, handler: h}`,
	"validatingadmissionpolicies":       `{metadata: {name: a}, spec: {` + constraints + `, validations: [{expression: "true"}]}}`,
	"validatingwebhookconfigurations":   `{metadata: {name: a}}`,
	"validatingadmissionpolicybindings": `{metadata: {name: a}, spec: {policyName: p, validationActions: [Deny]}}`,
	"mutatingadmissionpolicies": `{metadata: {name: a}, spec: {` + constraints + `, reinvocationPolicy: Never,
mutations: [{patchType: JSONPatch, jsonPatch: {expression: "[]"}}]}}`,
	"mutatingadmissionpolicybindings": `{metadata: {name: a}, spec: {policyName: p}}`,
	"volumeattachments":               `{metadata: {name: a}, spec: {attacher: b, nodeName: c, source: {persistentVolumeName: d}}}`,
}

const constraints = `matchConstraints: {resourceRules: [{apiGroups: [""], apiVersions: [v1], resources: [pods], operations: [CREATE]}]}`

// TestConditional updates objects of the conditional kinds with and without a resourceVersion. No other kind
// is conditional.
func TestConditional(t *testing.T) {
	all := append(kube.Resources(), kube.InitializerConfigurations())
	c := client{t, apiservertest.Start(t, apiservertest.WithResources(all...)), "application/json"}
	c.do("POST", "/api/v1/namespaces", `{metadata: {name: team}}`, 201)
	found := 0
	for _, r := range all {
		body, ok := conditional[r.Plural]
		if r.Conditional != ok {
			t.Errorf("%s is conditional: %v", r.Plural, r.Conditional)
		}
		if ok {
			found++
			c.conditional(r, strings.Replace(body, "AUTHORITY", authority(t, c.server), 1))
		}
	}
	if found != len(conditional) {
		t.Errorf("%d of %d kinds are served", found, len(conditional))
	}
}

// authority returns the certificate authority of a server as JSON.
func authority(t *testing.T, s *apiservertest.Server) string {
	var config struct {
		Clusters []struct {
			Cluster struct {
				Authority []byte `json:"certificate-authority-data"`
			}
		}
	}
	if err := yaml.Unmarshal(s.Kubeconfig(), &config); err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(string(config.Clusters[0].Cluster.Authority))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (c client) conditional(r apiserver.Resource, body string) {
	path := "/apis/" + r.Group + "/" + r.Version
	if r.Namespaced {
		path += "/namespaces/team"
	}
	name := object(c.t, c.do("POST", path+"/"+r.Plural, body, 201)).GetName()
	path += "/" + r.Plural + "/" + name
	paths := []string{path}
	for _, sub := range r.Subresources {
		if sub, ok := sub.(apiserver.Status); ok {
			paths = append(paths, path+"/"+sub.SubresourceName())
		}
	}
	for _, path := range paths {
		zero := strings.Replace(body, "{metadata: {", `{metadata: {resourceVersion: "0", `, 1)
		for _, body := range []string{body, zero} {
			answer := object(c.t, c.do("PUT", path, body, 422))
			want := fmt.Sprintf("%s.%s %q is invalid: metadata.resourceVersion: Invalid value: 0: must be specified for an update", r.Plural, r.Group, name)
			if value(answer, "message") != want || value(answer, "details", "kind") != r.Plural {
				c.t.Errorf("PUT %s: %v", path, answer)
			}
		}
		c.put(path, body, 200)
		for media, patch := range map[string]string{
			"application/merge-patch+json":           `{"metadata": {"annotations": {"a": "b"}}}`,
			"application/strategic-merge-patch+json": `{"metadata": {"annotations": {"a": "c"}}}`,
			"application/json-patch+json":            `[{"op": "add", "path": "/metadata/annotations", "value": {"a": "d"}}]`,
			"application/apply-patch+yaml?fieldManager=me&force=true": fmt.Sprintf(
				`{"apiVersion": "%s/%s", "kind": "%s", "metadata": {"name": "%s", "annotations": {"a": "e"}}}`, r.Group, r.Version, r.Kind, name),
		} {
			media, query, _ := strings.Cut(media, "?")
			if status, answer := c.patch(media, path+"?"+query, patch); status != http.StatusOK {
				c.t.Errorf("PATCH %s with %s: %d %s", path, media, status, answer)
			}
		}
		remove := `[{"op": "remove", "path": "/metadata/resourceVersion"}]`
		if status, answer := c.patch("application/json-patch+json", path, remove); status != http.StatusUnprocessableEntity {
			c.t.Errorf("PATCH %s without a version: %d %s", path, status, answer)
		}
	}
	missing := strings.Replace(body, "{metadata: {name: "+name, "{metadata: {name: "+name+"x", 1)
	code := 404
	if r.CreateOnUpdate {
		code = 201
	}
	c.do("PUT", path+"x", missing, code)
}
