package nodeproxy_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"sync"
	"testing"

	"github.com/planekit/planekit/apiserver/nodeproxy"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// node is a kubelet that answers as serve does, a proxy to it, and a front
// server whose paths are those of the API.
type node struct {
	kubelet *httptest.Server
	object  *corev1.Node
	proxy   *nodeproxy.Proxy
	front   *httptest.Server

	mu   sync.Mutex
	last *http.Request // the last that the kubelet saw
}

func (n *node) seen() *http.Request {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.last
}

func startNode(t *testing.T, serve http.HandlerFunc) *node {
	t.Helper()
	n := &node{}
	n.kubelet = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.mu.Lock()
		n.last = r
		n.mu.Unlock()
		serve(w, r)
	}))
	n.kubelet.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert}
	n.kubelet.StartTLS()
	t.Cleanup(n.kubelet.Close)
	n.object = nodeAt(t, n.kubelet.Listener.Addr())

	pool := x509.NewCertPool()
	pool.AddCert(n.kubelet.Certificate())
	n.proxy = newProxy(t, n, &tls.Config{RootCAs: pool, Certificates: n.kubelet.TLS.Certificates})
	n.serve(t, testPod("node-1"))
	return n
}

func newProxy(t *testing.T, n *node, c *tls.Config) *nodeproxy.Proxy {
	t.Helper()
	p, err := nodeproxy.New(nodeproxy.Config{
		Nodes: nodeproxy.NodesFunc(func(_ context.Context, name string) (*corev1.Node, error) {
			if name != "node-1" {
				return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, name)
			}
			return n.object, nil
		}),
		TLS: c,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	return p
}

// serve puts the front server before the proxy, with pod as the only one.
func (n *node) serve(t *testing.T, pod *corev1.Pod) {
	t.Helper()
	const path = "/api/v1/namespaces/default/pods/{name}/"
	mux := http.NewServeMux()
	for pattern, connect := range map[string]func(runtime.Object) (http.Handler, error){
		path + "log": n.proxy.Log, path + "exec": n.proxy.Exec, path + "attach": n.proxy.Attach,
		path + "portforward": n.proxy.PortForward, path + "proxy/": n.proxy.PodProxy,
	} {
		handler, err := connect(pod)
		if err != nil {
			t.Fatal(err)
		}
		mux.Handle(pattern, handler)
	}
	handler, err := n.proxy.NodeProxy(n.object)
	if err != nil {
		t.Fatal(err)
	}
	mux.Handle("/api/v1/nodes/{name}/proxy/", handler)
	n.front = httptest.NewServer(mux)
	t.Cleanup(n.front.Close)
}

func nodeAt(t *testing.T, address net.Addr) *corev1.Node {
	t.Helper()
	host, text, err := net.SplitHostPort(address.String())
	if err != nil {
		t.Fatal(err)
	}
	port, err := strconv.Atoi(text)
	if err != nil {
		t.Fatal(err)
	}
	return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}, Status: corev1.NodeStatus{
		Addresses:       []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: "unknown.invalid"}, {Type: corev1.NodeInternalIP, Address: host}},
		DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: int32(port)}},
	}}
}

func testPod(node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "uid-1"},
		Spec: corev1.PodSpec{NodeName: node, InitContainers: []corev1.Container{{Name: "init"}},
			Containers: []corev1.Container{{Name: "a"}, {Name: "b"}}},
		Status: corev1.PodStatus{PodIP: "127.0.0.1"},
	}
}

// anywhere allows what tests listen on.
func anywhere(netip.Addr) error { return nil }
