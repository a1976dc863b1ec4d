package kube_test

import (
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/kube"
)

func TestInitializerConfigurations(t *testing.T) {
	c := client{t, apiservertest.Start(t, apiservertest.WithResources(kube.InitializerConfigurations())), "application/json"}
	const path = "/apis/admissionregistration.k8s.io/v1alpha1/initializerconfigurations"
	good := `{metadata: {name: %}, initializers: [{name: podimage.example.com, rules: [{apiGroups: [""], apiVersions: ["*"], resources: [pods]}]}]}`
	made := object(t, c.do("POST", path, strings.Replace(good, "%", "a", 1), 201))
	if made.GetGeneration() != 1 || made.GetKind() != "InitializerConfiguration" || made.GetAPIVersion() != "admissionregistration.k8s.io/v1alpha1" {
		t.Errorf("made %v", made)
	}
	changed := object(t, c.put(path+"/a", strings.Replace(strings.Replace(good, "%", "a", 1), "pods", "secrets", 1), 200))
	if changed.GetGeneration() != 2 {
		t.Errorf("changed %v", changed)
	}
	for from, to := range map[string]string{
		"podimage.example.com": "example.com", "name: podimage.example.com, ": "", "podimage": "Pod_image",
		`apiGroups: [""]`: "apiGroups: []", `["*"]`: `["*", v1]`, "[pods]": "[pods/status]", "resources: [pods]": `resources: [""]`,
		"initializers: [": "initializers: [{name: podimage.example.com}, ",
	} {
		bad := strings.Replace(strings.Replace(good, "%", "b", 1), from, to, 1)
		if text := string(c.do("POST", path, bad, 422)); !strings.Contains(text, "initializers[") {
			t.Errorf(`POST of %s = 422 %s, want "initializers[" in it`, bad, text)
		}
	}
	if text := string(c.put(path+"/a", strings.Replace(strings.Replace(good, "%", "a", 1), "podimage.example.com", "short", 1), 422)); !strings.Contains(text, "should be a domain with at least three segments separated by dots") {
		t.Error(text)
	}
	c.accept = "application/json;as=Table;v=v1;g=meta.k8s.io"
	if text := string(c.do("GET", path, "", 200)); !strings.Contains(text, `"cells":["a",1,"`) {
		t.Error(text)
	}
}
