package metricsserver_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/kinds/apiregistration"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/metricsserver"
	"github.com/planekit/planekit/plane/planetest"
	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/memstore"
	"go.uber.org/goleak"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const apiService = "v1beta1.metrics.k8s.io"

// withMetrics adds the metrics server.
func withMetrics(c *plane.Config) {
	c.Parts = append(c.Parts, metricsserver.Part(metricsserver.Config{Resolution: time.Second}))
}

// usage returns the metrics of a node, once there are some.
func usage(t *testing.T, p *planetest.Plane) string {
	t.Helper()
	var body []byte
	planetest.Eventually(t, func() error {
		answer, err := p.Client().Do(t.Context(), client.Request{Path: "/apis/metrics.k8s.io/v1beta1/nodes/node-1"})
		body = answer.Body
		return err
	})
	return string(body)
}

// get asks with a certificate of a user, or without one.
func get(t *testing.T, p *planetest.Plane, user, url, serverName string) (int, string) {
	t.Helper()
	config := &tls.Config{RootCAs: p.Credentials.KubeletTLS(p.Credentials.Admin).RootCAs, ServerName: serverName}
	if user != "" {
		pair, err := p.Credentials.Authority.Client(user, user)
		if err != nil {
			t.Fatal(err)
		}
		config.Certificates = []tls.Certificate{pair.TLS()}
	}
	transport := &http.Transport{TLSClientConfig: config}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("X-Remote-User", "kubernetes-admin")
	r.Header.Set("X-Remote-Group", "system:masters")
	answer, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(body)
}

// TestPart reads the metrics of a node through the control plane, and asks all servers as users who
// may not.
func TestPart(t *testing.T) {
	p := planetest.Start(t, planetest.With(withMetrics), planetest.Nodes(1))
	if got := usage(t, p); !strings.Contains(got, `"kind":"NodeMetrics"`) || !strings.Contains(got, `"usage":{"cpu":"`) {
		t.Errorf("the metrics of node-1 are %s, want a NodeMetrics with the usage of cpu", got)
	}
	s, err := typed.APIServices(p.Client()).Get(t.Context(), "", apiService)
	if err != nil {
		t.Fatal(err)
	}
	// The metrics server believes its front proxy alone about users.
	direct := fmt.Sprintf("https://127.0.0.1:%d/apis/metrics.k8s.io/v1beta1/nodes", *s.Spec.Service.Port)
	for _, user := range []string{"", "kubernetes-admin", plane.MetricsServer} {
		if code, body := get(t, p, user, direct, "metrics-server.kube-system.svc"); code != http.StatusUnauthorized {
			t.Errorf("GET %s as %q: %d %s, want %d", direct, user, code, body, http.StatusUnauthorized)
		}
	}
	// At a kubelet it may read metrics and nothing else.
	node, err := typed.Nodes(p.Client()).Get(t.Context(), "", "node-1")
	if err != nil {
		t.Fatal(err)
	}
	kubelet := fmt.Sprintf("https://127.0.0.1:%d", node.Status.DaemonEndpoints.KubeletEndpoint.Port)
	for path, want := range map[string]int{
		"/metrics": 200, "/metrics/resource": 200, "/metrics/cadvisor": 200, "/metrics/probes": 200,
		"/pods": 403, "/configz": 403, "/stats/summary": 403, "/containerLogs/a/b/c": 403, "/exec/a/b/c": 403, "/metrics%2fresource": 403,
	} {
		if code, body := get(t, p, plane.MetricsServer, kubelet+path, ""); code != want {
			t.Errorf("%s: %d %s, want %d", path, code, body, want)
		}
	}
	if code, body := get(t, p, "jane", kubelet+"/metrics/resource", ""); code != 403 {
		t.Errorf("jane: %d %s", code, body)
	}
}

// TestRestart: the objects lead to the server of the last start, whatever has happened to them.
func TestRestart(t *testing.T) {
	store := memstore.New()
	for range 2 {
		t.Run("start", func(t *testing.T) {
			p := planetest.Start(t, planetest.With(func(c *plane.Config) { c.Store = store }), planetest.With(withMetrics), planetest.Nodes(1))
			usage(t, p)
			services := typed.Services(p.Client())
			service, err := services.Get(t.Context(), "kube-system", "metrics-server")
			if err != nil {
				t.Fatal(err)
			}
			service.Spec.ExternalName = "elsewhere.invalid"
			if _, err := services.Update(t.Context(), service); err != nil {
				t.Fatal(err)
			}
			if err := typed.ClusterRoles(p.Client()).Delete(t.Context(), "", plane.MetricsServer, metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		})
	}
}

// reluctant is a Store that refuses the first writes of Services called metrics-server.
type reluctant struct {
	storage.Store
	refused atomic.Int32
}

func (r *reluctant) Commit(ctx context.Context, c storage.Change) (storage.Record, error) {
	if strings.HasSuffix(string(c.Key), "/kube-system/metrics-server") && r.refused.Add(1) <= 3 {
		return storage.Record{}, errors.New("the disk is full")
	}
	return r.Store.Commit(ctx, c)
}

// TestReluctantStore: the server is registered when its Service can be written.
func TestReluctantStore(t *testing.T) {
	store := &reluctant{Store: memstore.New()}
	p := planetest.Start(t, planetest.With(func(c *plane.Config) { c.Store = store }), planetest.With(withMetrics), planetest.Nodes(1))
	usage(t, p)
	if n := store.refused.Load(); n < 4 {
		t.Errorf("the Service was written %d times, want at least 4", n)
	}
}

// TestAnotherServer: the APIService of a metrics server of the user's own is left alone.
func TestAnotherServer(t *testing.T) {
	port := int32(443)
	theirs := &apiregistration.APIService{ObjectMeta: metav1.ObjectMeta{Name: apiService}, Spec: apiregistration.APIServiceSpec{
		Group: "metrics.k8s.io", Version: "v1beta1", InsecureSkipTLSVerify: true, GroupPriorityMinimum: 7, VersionPriority: 7,
		Service: &apiregistration.ServiceReference{Namespace: "monitoring", Name: "theirs", Port: &port},
	}}
	store := memstore.New()
	t.Run("before", func(t *testing.T) {
		p := planetest.Start(t, planetest.With(func(c *plane.Config) { c.Store = store }))
		if _, err := typed.APIServices(p.Client()).Create(t.Context(), theirs); err != nil {
			t.Fatal(err)
		}
	})
	p := planetest.Start(t, planetest.With(func(c *plane.Config) { c.Store = store }), planetest.With(withMetrics))
	s, err := typed.APIServices(p.Client()).Get(t.Context(), "", apiService)
	if err != nil || s.Spec.Service.Name != "theirs" || s.Spec.GroupPriorityMinimum != 7 {
		t.Errorf("Get(%s) = %+v, %v, want the Service theirs and GroupPriorityMinimum 7", apiService, s, err)
	}
	if _, err := typed.Services(p.Client()).Get(t.Context(), "kube-system", "metrics-server"); err == nil {
		t.Error("a Service was made for a server that does not run")
	}
}

// TestBadResolution: what is wrong with the configuration ends the start.
func TestBadResolution(t *testing.T) {
	p, err := plane.New(plane.Config{NoControllers: true, NoScheduler: true, Parts: []plane.Part{metricsserver.Part(metricsserver.Config{Resolution: time.Millisecond})}})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Run(t.Context()); err == nil || errors.Is(err, t.Context().Err()) || !strings.Contains(err.Error(), "Resolution 1ms is shorter than a second") {
		t.Error(err)
	}
}
