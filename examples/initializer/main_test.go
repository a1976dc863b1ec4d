package main

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/initializers"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/informer"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"
)

// handover passes a plugin to the server that it reads its configurations from.
type handover struct {
	atomic.Pointer[initializers.Plugin]
}

func (h *handover) Pending(ctx context.Context, in *admission.Request) ([]string, error) {
	return h.Load().Pending(ctx, in)
}

// TestProgram runs the program against a server that is configured as it says.
func TestProgram(t *testing.T) {
	plugin := &handover{}
	server := apiservertest.Start(t, apiservertest.WithResources(kube.Resources()...),
		apiservertest.WithResources(kube.InitializerConfigurations()),
		apiservertest.WithConfig(func(c *apiserver.Config) { c.Initializers = plugin }))
	ctx, cancel := context.WithCancel(t.Context())
	api, err := client.New(client.Config{Server: server.URL, Transport: server.Client().Transport})
	if err != nil {
		t.Fatal(err)
	}
	copied, err := informer.For(client.For(api, initializers.Configurations))
	if err != nil {
		t.Fatal(err)
	}
	known, err := initializers.New(initializers.Config{Configurations: copied})
	if err != nil {
		t.Fatal(err)
	}
	plugin.Store(known)
	config, err := kubeconfig.Parse(server.Kubeconfig())
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 3)
	go func() { ended <- copied.Run(ctx) }()
	go func() { ended <- known.Run(ctx) }()
	go func() { ended <- run(ctx, config) }()
	t.Cleanup(func() {
		cancel()
		for range 3 {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
	post := func(path, body string) (int, string) {
		t.Helper()
		response, err := server.Client().Post(server.URL+path, "application/json", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		data, err := io.ReadAll(response.Body)
		if err != nil {
			t.Fatal(err)
		}
		return response.StatusCode, string(data)
	}
	text, err := os.ReadFile("configuration.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if text, err = yaml.YAMLToJSON(text); err != nil {
		t.Fatal(err)
	}
	const namespaced = "/api/v1/namespaces/default/"
	if code, body := post("/apis/admissionregistration.k8s.io/v1alpha1/initializerconfigurations", string(text)); code != http.StatusCreated {
		t.Fatal(body)
	}
	waitFor(t, func() bool {
		names, err := known.Pending(ctx, &admission.Request{Resource: admission.GroupVersionResource{Version: "v1", Resource: "pods"}, Object: &corev1.Pod{}})
		return err == nil && len(names) == 1
	})
	for _, c := range []struct{ path, body, says string }{
		{"pods", `{"metadata":{"name":"web"},"spec":{"containers":[{"name":"web","image":"nginx","ports":[{"containerPort":80}]}]}}`, "web proxy"},
		{"pods", `{"metadata":{"name":"job"},"spec":{"containers":[{"name":"job","image":"busybox"}]}}`, "job"},
		{"secrets", `{"metadata":{"name":"good"},"data":{"password":"bG9uZy1lbm91Z2g="}}`, ""},
	} {
		code, body := post(namespaced+c.path, c.body)
		var pod corev1.Pod
		if err := json.Unmarshal([]byte(body), &pod); err != nil || code != http.StatusCreated || strings.Contains(body, `"initializers"`) {
			t.Fatalf("POST %s to %s = %d %s, %v, want 201 with an object in JSON without initializers", c.body, c.path, code, body, err)
		}
		var names []string
		for _, one := range pod.Spec.Containers {
			names = append(names, one.Name)
		}
		if got := strings.Join(names, " "); got != c.says {
			t.Errorf("%s became %s", c.body, body)
		}
	}
	code, body := post(namespaced+"secrets", `{"metadata":{"name":"bad"},"data":{"password":"c2hvcnQ="}}`)
	if code != http.StatusForbidden || !strings.Contains(body, "secret bad: the password must have at least 8 characters") {
		t.Errorf("a short password: %d %s", code, body)
	}
	response, err := server.Client().Get(server.URL + namespaced + "secrets/bad?includeUninitialized=true")
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusNotFound {
		t.Errorf("what was refused is there: %d", response.StatusCode)
	}
}

// TestIsShort: the program is meant to be read at a glance.
func TestIsShort(t *testing.T) {
	text, err := os.ReadFile("main.go")
	if err != nil {
		t.Fatal(err)
	}
	if lines := bytes.Count(text, []byte("\n")); lines > 80 {
		t.Errorf("main.go has %d lines", lines)
	}
}

// waitFor waits until is returns true, and fails the test after ten seconds.
func waitFor(t *testing.T, is func() bool) {
	t.Helper()
	ticks := time.NewTicker(10 * time.Millisecond)
	defer ticks.Stop()
	for end := time.Now().Add(10 * time.Second); !is(); <-ticks.C {
		if time.Now().After(end) {
			t.Fatal("the condition did not become true")
		}
	}
}
