package apiservertest_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func ExampleStart() {
	var t *testing.T // that of the test function
	server := apiservertest.Start(t, apiservertest.WithResources(configMaps()))
	response, err := server.Client().Get(server.URL + "/api/v1/configmaps")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
}

func configMaps() apiserver.Resource {
	return apiserver.Resource{
		Version: "v1", Kind: "ConfigMap", Plural: "configmaps", Namespaced: true,
		New:     func() runtime.Object { return &corev1.ConfigMap{} },
		NewList: func() runtime.Object { return &corev1.ConfigMapList{} },
	}
}

func TestStart(t *testing.T) {
	server := apiservertest.Start(t, apiservertest.WithResources(configMaps()))
	for _, client := range []struct {
		name string
		get  func(string) (int, string)
	}{
		{"over the wire", get(t, server.Client().Get)},
		{"through memory", get(t, server.As("root", "system:masters").Get)},
	} {
		if code, body := client.get(server.URL + "/api/v1/configmaps"); code != 200 || !strings.Contains(body, "ConfigMapList") {
			t.Errorf("%s: GET /api/v1/configmaps = %d %s, want 200 with a ConfigMapList", client.name, code, body)
		}
	}
	if code, body := get(t, server.As("jane").Get)(server.URL + "/api/v1/configmaps"); code != 403 {
		t.Errorf("as jane: %d %s", code, body)
	}
	if config := string(server.Kubeconfig()); !strings.Contains(config, server.URL) || !strings.Contains(config, server.Token) {
		t.Error(config)
	}
}

func get(t *testing.T, do func(string) (*http.Response, error)) func(string) (int, string) {
	return func(url string) (int, string) {
		response, err := do(url)
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(body)
	}
}
