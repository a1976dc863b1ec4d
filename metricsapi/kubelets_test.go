package metricsapi_test

import (
	"context"
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/metricsapi"
	"github.com/planekit/planekit/pki"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func anywhere(netip.Addr) error { return nil }

// remote is a kubelet behind TLS, with the certificate of a node.
type remote struct {
	*httptest.Server
	authority *pki.Authority
	node      *corev1.Node
}

func startRemote(t *testing.T, certified string, handler http.HandlerFunc) *remote {
	t.Helper()
	authority, err := pki.New()
	if err != nil {
		t.Fatal(err)
	}
	pair, err := authority.Kubelet(certified, "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	r := &remote{Server: httptest.NewUnstartedServer(handler), authority: authority}
	r.TLS = &tls.Config{Certificates: []tls.Certificate{pair.TLS()}, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: authority.Pool()}
	r.Config.ErrorLog = log.New(io.Discard, "", 0)
	r.StartTLS()
	t.Cleanup(r.Close)
	host, port, err := net.SplitHostPort(r.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	number, err := strconv.Atoi(port)
	if err != nil {
		t.Fatal(err)
	}
	r.node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}}
	r.node.Status.Addresses = []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "nowhere.invalid"}, {Type: corev1.NodeInternalIP, Address: host}}
	r.node.Status.DaemonEndpoints.KubeletEndpoint.Port = int32(number)
	return r
}

// kubelets returns a client with a certificate of its own.
func (r *remote) kubelets(t *testing.T) *metricsapi.Kubelets {
	t.Helper()
	pair, err := r.authority.Client("metrics", "system:metrics-server")
	if err != nil {
		t.Fatal(err)
	}
	k := &metricsapi.Kubelets{MayDial: anywhere, TLS: &tls.Config{RootCAs: r.authority.Pool(), Certificates: []tls.Certificate{pair.TLS()}}}
	t.Cleanup(k.Close)
	return k
}

func read(ctx context.Context, k *metricsapi.Kubelets, node *corev1.Node) (string, error) {
	body, err := k.Scrape(ctx, node)
	if err != nil {
		return "", err
	}
	defer body.Close()
	data, err := io.ReadAll(body)
	return string(data), err
}

func TestKubelets(t *testing.T) {
	r := startRemote(t, "node-1", func(w http.ResponseWriter, r *http.Request) {
		io.WriteString(w, r.Method+" "+r.URL.Path+" "+r.TLS.PeerCertificates[0].Subject.CommonName+" "+r.Header.Get("Accept-Encoding"))
	})
	k := r.kubelets(t)
	for range 2 { // the second time on the same connection
		if got, err := read(t.Context(), k, r.node); err != nil || got != "GET /metrics/resource system:metrics-server " {
			t.Errorf("Scrape = %q, %v, want %q", got, err, "GET /metrics/resource system:metrics-server ")
		}
	}
	// A node that claims the address of another gets no answer of that, not even on its connection.
	liar := r.node.DeepCopy()
	liar.Name = "node-2"
	if _, err := read(t.Context(), k, liar); err == nil || !strings.Contains(err.Error(), `not of node "node-2"`) {
		t.Error(err)
	}
	for want, change := range map[string]func(*corev1.Node, *metricsapi.Kubelets){
		"status.daemonEndpoints.kubeletEndpoint.Port of the node is 0":  func(n *corev1.Node, _ *metricsapi.Kubelets) { n.Status.DaemonEndpoints.KubeletEndpoint.Port = 0 },
		"status.daemonEndpoints.kubeletEndpoint.Port of the node is -1": func(n *corev1.Node, _ *metricsapi.Kubelets) { n.Status.DaemonEndpoints.KubeletEndpoint.Port = -1 },
		"status.addresses of the node has no":                           func(n *corev1.Node, _ *metricsapi.Kubelets) { n.Status.Addresses = nil },
		"it is not a global unicast address":                            func(_ *corev1.Node, k *metricsapi.Kubelets) { k.MayDial = nil },
		"certificate signed by unknown authority":                       func(_ *corev1.Node, k *metricsapi.Kubelets) { k.TLS = &tls.Config{} },
	} {
		node, other := r.node.DeepCopy(), r.kubelets(t)
		change(node, other)
		if _, err := read(t.Context(), other, node); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestKubeletsAnswers: what is no plain answer is refused, and no redirect is followed.
func TestKubeletsAnswers(t *testing.T) {
	for want, handler := range map[string]http.HandlerFunc{
		`answered 302: `: func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/metrics/resource" {
				t.Errorf("asked for %s", r.URL)
			}
			http.Redirect(w, r, "/elsewhere", http.StatusFound)
		},
		`answered 403: "Forbidden\n"`: func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "Forbidden", http.StatusForbidden) },
		`the encoding "gzip", which was not asked for`: func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Encoding", "gzip")
		},
		"server response headers exceeded": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("X", strings.Repeat("x", 1<<20))
		},
		"unexpected EOF": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "10")
			io.WriteString(w, "short")
		},
	} {
		r := startRemote(t, "node-1", handler)
		if _, err := read(t.Context(), r.kubelets(t), r.node); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}

// TestKubeletsHang: whatever hangs, the handshake or the body, ends with the context.
func TestKubeletsHang(t *testing.T) {
	for _, where := range []string{"handshake", "body"} {
		ended := make(chan bool)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		r := startRemote(t, "node-1", func(w http.ResponseWriter, r *http.Request) {
			w.(http.Flusher).Flush()
			cancel()
			<-ended
		})
		k := r.kubelets(t)
		if where == "handshake" {
			k.Dial = func(context.Context, string) (net.Conn, error) {
				near, far := net.Pipe()
				t.Cleanup(func() { far.Close() })
				go func() {
					far.Read(make([]byte, 1)) // of the client's hello
					cancel()
				}()
				return near, nil
			}
		}
		if got, err := read(ctx, k, r.node); err == nil {
			t.Errorf("Scrape that hangs in the %s = %q, want an error", where, got)
		}
		cancel()
		close(ended)
	}
}
