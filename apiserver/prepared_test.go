package apiserver_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/kube"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
)

// TestPluginsDoNotSetWhatTheServerSets has a plugin that gives pods limits and
// claims that they run: their class follows the limits, their state does not
// follow the claim, and a change of the plugin's is a generation.
func TestPluginsDoNotSetWhatTheServerSets(t *testing.T) {
	image := "nginx:1"
	api := apiservertest.Start(t, apiservertest.WithResources(kube.Resources()...), apiservertest.WithAdmission(admit{
		mutate: func(_ context.Context, in *admission.Request) error {
			pod, ok := in.Object.(*corev1.Pod)
			if !ok || in.Subresource != "" {
				return nil
			}
			size := corev1.ResourceList{"cpu": resource.MustParse("1"), "memory": resource.MustParse("1Gi")}
			pod.Spec.Containers[0].Resources = corev1.ResourceRequirements{Limits: size, Requests: size}
			pod.Spec.Containers[0].Image = image
			pod.Status.Phase = corev1.PodRunning
			return nil
		},
	}))
	const pods = "/api/v1/namespaces/default/pods"
	send := func(method, path, body string) string {
		code, answer := exchange(t, api, method, path, body)
		if code >= 300 {
			t.Fatalf("%s %s = %d %s, want less than 300", method, path, code, answer)
		}
		return answer
	}
	made := send("POST", pods, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"web"},"spec":{"containers":[{"name":"web","image":"nginx"}]}}`)
	if !strings.Contains(made, `"qosClass":"Guaranteed"`) || !strings.Contains(made, `"phase":"Pending"`) {
		t.Errorf("made %s", made)
	}
	image = "nginx:2"
	changed := send("PATCH", pods+"/web", `{"metadata":{"labels":{"a":"b"}}}`)
	if !strings.Contains(changed, `"generation":2`) || !strings.Contains(changed, `"phase":"Pending"`) {
		t.Errorf("changed to %s", changed)
	}
}

// exchange sends a request as an administrator.
func exchange(t *testing.T, api *apiservertest.Server, method, path, body string) (int, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, api.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	if method == "PATCH" {
		request.Header.Set("Content-Type", "application/merge-patch+json")
	}
	answer, err := api.Client().Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	var text strings.Builder
	if _, err := io.Copy(&text, answer.Body); err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, text.String()
}
