package nodes_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/pki"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/nodes"
	"github.com/planekit/planekit/plane/planetest"
	"github.com/planekit/planekit/plane/stack"
)

// clientOf returns a client over TLS with a certificate.
func clientOf(t *testing.T, config *kubeconfig.Config) *client.Client {
	t.Helper()
	c, _, err := config.Client("")
	if err != nil {
		t.Fatal(err)
	}
	api, err := client.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.Close)
	return api
}

// startRemote runs a node that reaches the control plane over TLS, until the test ends.
func startRemote(t *testing.T, p *planetest.Plane, name string) {
	t.Helper()
	authority := p.Credentials.Authority
	own, err1 := authority.Client("node", user.NodePrefix+name, user.Nodes)
	serving, err2 := authority.Kubelet(name, "127.0.0.1")
	if err1 != nil || err2 != nil {
		t.Fatal(err1, err2)
	}
	pool := authority.Pool()
	remote := nodes.Remote{
		Client:    clientOf(t, p.Credentials.KubeconfigOf(p.URL(), own)),
		TLS:       &tls.Config{Certificates: []tls.Certificate{serving.TLS()}},
		ClientCAs: func() *x509.CertPool { return pool },
	}
	s := stack.New()
	err := nodes.StartRemote(t.Context(), s, remote, nodes.Config{Name: name, Dir: t.TempDir(), Address: "127.0.0.1", Runtime: &nodes.Memory{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
}

// TestStartRemote runs a node over TLS: it starts a pod with the services of its namespace in its
// environment, and shows its logs to whom the API server lets read them.
func TestStartRemote(t *testing.T) {
	p := planetest.Start(t, planetest.With(func(c *plane.Config) {
		c.MayDialNode = func(netip.Addr) error { return nil } // nodes are at the loopback address
	}))
	startRemote(t, p, "far")
	api, ctx := p.Client(), t.Context()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}}
	pod.Spec.Containers = []corev1.Container{{Name: "web", Image: "nginx"}}
	if _, err := typed.Pods(api).Create(ctx, pod); err != nil {
		t.Fatal(err)
	}
	planetest.Eventually(t, func() error {
		running, err := typed.Pods(api).Get(ctx, "default", "web")
		if err == nil && (running.Status.Phase != corev1.PodRunning || running.Spec.NodeName != "far") {
			err = fmt.Errorf("the pod is %s on %q", running.Status.Phase, running.Spec.NodeName)
		}
		return err
	})
	if _, err := api.Do(ctx, client.Request{Path: "/api/v1/namespaces/default/pods/web/log"}); err != nil {
		t.Errorf("logs: %v", err)
	}
}

// TestRemoteReviews asks the server of a node directly: the API server says who may do what, and later
// requests of the same kind do not depend on it.
func TestRemoteReviews(t *testing.T) {
	p := planetest.Start(t)
	startRemote(t, p, "far")
	node, err := typed.Nodes(p.Client()).Get(t.Context(), "", "far")
	if err != nil {
		t.Fatal(err)
	}
	url := fmt.Sprintf("https://127.0.0.1:%d/configz", node.Status.DaemonEndpoints.KubeletEndpoint.Port)
	stranger, err := pki.New()
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		name      string
		authority *pki.Authority
		user      string
		groups    []string
		want      int
	}{
		{"administrator", p.Credentials.Authority, "admin", []string{user.Masters}, http.StatusOK},
		{"user without rights", p.Credentials.Authority, "jane", nil, http.StatusForbidden},
		{"certificate of another authority", stranger, "admin", []string{user.Masters}, http.StatusUnauthorized},
	} {
		t.Run(test.name, func(t *testing.T) {
			pair, err := test.authority.Client("client", test.user, test.groups...)
			if err != nil {
				t.Fatal(err)
			}
			transport := &http.Transport{TLSClientConfig: p.Credentials.ClientTLS(pair)}
			defer transport.CloseIdleConnections()
			for range 2 {
				request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
				if err != nil {
					t.Fatal(err)
				}
				answer, err := transport.RoundTrip(request)
				if err != nil {
					t.Fatal(err)
				}
				answer.Body.Close()
				if answer.StatusCode != test.want {
					t.Errorf("status %d, want %d", answer.StatusCode, test.want)
				}
			}
		})
	}
}

// TestStartRemoteWaits: a node whose user has no rights waits, and ends when it is stopped.
func TestStartRemoteWaits(t *testing.T) {
	if err := nodes.StartRemote(t.Context(), stack.New(), nodes.Remote{}, nodes.Config{}); err == nil {
		t.Error("a Remote without fields was accepted")
	}
	p := planetest.Start(t)
	pair, err := p.Credentials.Authority.Client("client", "jane")
	if err != nil {
		t.Fatal(err)
	}
	pool := p.Credentials.Authority.Pool()
	remote := nodes.Remote{
		Client: clientOf(t, p.Credentials.KubeconfigOf(p.URL(), pair)),
		TLS:    p.Credentials.ServerTLS(false), ClientCAs: func() *x509.CertPool { return pool },
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	s := stack.New()
	err = nodes.StartRemote(ctx, s, remote, nodes.Config{Name: "far", Dir: t.TempDir(), Address: "127.0.0.1", Runtime: &nodes.Memory{}})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("start: %v", err)
	}
	if err := s.Stop(); err != nil {
		t.Error(err)
	}
}
