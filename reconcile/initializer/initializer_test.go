package initializer_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/reconcile/initializer"
	"go.uber.org/goleak"
	corev1 "k8s.io/api/core/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// waits makes every config map and node wait for the named initializers.
type waits []string

func (w waits) Pending(_ context.Context, in *admission.Request) ([]string, error) {
	if in.Resource.Resource == "configmaps" || in.Resource.Resource == "nodes" {
		return w, nil
	}
	return nil, nil
}

const configMaps = "/api/v1/namespaces/default/configmaps"

func serve(t testing.TB, names ...string) *apiservertest.Server {
	return apiservertest.Start(t, apiservertest.WithResources(kube.Resources()...),
		apiservertest.WithConfig(func(c *apiserver.Config) { c.Initializers = waits(names) }))
}

// run runs a loop until the test ends.
func run[T any](t testing.TB, c initializer.Config[T]) {
	t.Helper()
	loop, err := initializer.New(c)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- loop.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func send(t testing.TB, client *http.Client, method, url, body string) (int, string) {
	t.Helper()
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	if method == http.MethodPatch {
		r.Header.Set("Content-Type", "application/merge-patch+json")
	}
	response, err := client.Do(r)
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

// label returns an initializer that records its name, and the labels before it, in a label.
func label(name string) func(context.Context, *corev1.ConfigMap) error {
	return func(_ context.Context, m *corev1.ConfigMap) error {
		if m.Labels == nil {
			m.Labels = map[string]string{}
		}
		m.Labels["order"] = m.Labels["order"] + name
		return nil
	}
}

func TestTwoLoopsInOrder(t *testing.T) {
	server := serve(t, "a.example.com", "b.example.com")
	for _, name := range []string{"b", "a"} {
		run(t, initializer.Config[corev1.ConfigMap]{
			Name: name + ".example.com", URL: server.URL + "/api/v1/configmaps", Client: server.Client(), Initialize: label(name),
		})
	}
	var all sync.WaitGroup
	for i := range 20 {
		all.Go(func() {
			code, body := send(t, server.Client(), "POST", server.URL+configMaps, fmt.Sprintf(`{"metadata":{"name":"m%d"}}`, i))
			if code != http.StatusCreated || !strings.Contains(body, `"order":"ab"`) || strings.Contains(body, "initializers") {
				t.Errorf(`POST of m%d: %d %s, want %d with "order":"ab" and no initializers`, i, code, body, http.StatusCreated)
			}
		})
	}
	all.Wait()
}

// TestClusterScoped also covers objects that existed before the loop, and a collection in one
// namespace.
func TestClusterScoped(t *testing.T) {
	server := serve(t, "a.example.com")
	for path, body := range map[string]string{"/api/v1/nodes": `{"metadata":{"name":"x"}}`, configMaps: `{"metadata":{"name":"x"}}`} {
		if code, text := send(t, server.Client(), "POST", server.URL+path+"?includeUninitialized=true", body); code != http.StatusCreated {
			t.Fatal(text)
		}
	}
	run(t, initializer.Config[corev1.Node]{
		Name: "a.example.com", URL: server.URL + "/api/v1/nodes", Client: server.Client(), Initialize: func(context.Context, *corev1.Node) error { return nil },
	})
	run(t, initializer.Config[corev1.ConfigMap]{
		Name: "a.example.com", URL: server.URL + configMaps + "/", BearerToken: server.Token, Client: server.Anonymous(), Initialize: label("a"),
	})
	for _, path := range []string{"/api/v1/nodes/x", configMaps + "/x"} {
		eventually(t, func() bool {
			code, _ := send(t, server.Client(), "GET", server.URL+path, "")
			return code == http.StatusOK
		})
	}
}

func TestRefusal(t *testing.T) {
	server := serve(t, "a.example.com")
	run(t, initializer.Config[corev1.ConfigMap]{
		Name: "a.example.com", URL: server.URL + "/api/v1/configmaps", Client: server.Client(),
		Initialize: func(_ context.Context, m *corev1.ConfigMap) error {
			return fmt.Errorf("looked at: %w", initializer.Refuse("not %s", m.Name))
		},
	})
	code, body := send(t, server.Client(), "POST", server.URL+configMaps, `{"metadata":{"name":"this"}}`)
	if code != http.StatusForbidden || !strings.Contains(body, `"message":"not this"`) {
		t.Errorf(`POST of an object that is refused: %d %s, want %d with the message "not this"`, code, body, http.StatusForbidden)
	}
	if code, body := send(t, server.Client(), "GET", server.URL+configMaps+"/this?includeUninitialized=true", ""); code != http.StatusNotFound {
		t.Errorf("GET of the refused object: %d %s, want %d", code, body, http.StatusNotFound)
	}
}

// TestRetries: the first call fails, another write precedes the update of the second, and the third
// call sees that write.
func TestRetries(t *testing.T) {
	server := serve(t, "a.example.com")
	var calls atomic.Int64
	run(t, initializer.Config[corev1.ConfigMap]{
		Name: "a.example.com", URL: server.URL + "/api/v1/configmaps", Client: server.Client(),
		Initialize: func(ctx context.Context, m *corev1.ConfigMap) error {
			switch calls.Add(1) {
			case 1:
				return errors.New("not yet")
			case 2:
				if code, body := send(t, server.Client(), "PATCH", server.URL+configMaps+"/m", `{"data":{"from":"another"}}`); code != http.StatusOK {
					t.Errorf("the other write: %s", body)
				}
			}
			return label("a")(ctx, m)
		},
	})
	code, body := send(t, server.Client(), "POST", server.URL+configMaps, `{"metadata":{"name":"m"}}`)
	if code != http.StatusCreated || !strings.Contains(body, `"from":"another"`) || !strings.Contains(body, `"order":"a"`) {
		t.Errorf(`POST of m: %d %s, want %d with "from":"another" and "order":"a"`, code, body, http.StatusCreated)
	}
	if n := calls.Load(); n != 3 {
		t.Errorf("%d calls", n)
	}
}

// cutting is a client whose first watches break.
type cutting struct {
	next http.RoundTripper
	left atomic.Int64
}

func (c *cutting) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Query().Get("watch") != "" && c.left.Add(-1) >= 0 {
		if c.left.Load() == 0 {
			return nil, errors.New("cut")
		}
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(`{"type":"ERROR","object":{}}`)), Request: r}, nil
	}
	return c.next.RoundTrip(r)
}

func TestWatchesAgain(t *testing.T) {
	server := serve(t, "a.example.com")
	c := &cutting{next: server.Client().Transport}
	c.left.Store(2)
	run(t, initializer.Config[corev1.ConfigMap]{
		Name: "a.example.com", URL: server.URL + "/api/v1/configmaps", Client: &http.Client{Transport: c}, Initialize: label("a"),
	})
	if code, body := send(t, server.Client(), "POST", server.URL+configMaps, `{"metadata":{"name":"m"}}`); code != http.StatusCreated {
		t.Errorf("POST of m: %d %s, want %d", code, body, http.StatusCreated)
	}
	if c.left.Load() >= 0 {
		t.Error("the watches did not break off")
	}
}

func TestNew(t *testing.T) {
	nothing := func(context.Context, *corev1.Pod) error { return nil }
	for name, c := range map[string]initializer.Config[corev1.Pod]{
		"no name": {URL: "https://x/api/v1/pods", Initialize: nothing}, "no function": {Name: "a", URL: "https://x/api/v1/pods"},
		"no URL": {Name: "a", Initialize: nothing}, "no collection": {Name: "a", URL: "https://x/", Initialize: nothing},
		"a broken URL": {Name: "a", URL: "https://x:y/z", Initialize: nothing},
	} {
		if _, err := initializer.New(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// eventually waits until is returns true.
func eventually(t testing.TB, is func() bool) {
	t.Helper()
	ticks := time.NewTicker(5 * time.Millisecond)
	defer ticks.Stop()
	for end := time.Now().Add(10 * time.Second); !is(); <-ticks.C {
		if time.Now().After(end) {
			t.Fatal("it did not come to be")
		}
	}
}
