package nodeproxy_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"log"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/planekit/planekit/apiserver/nodeproxy"
	"github.com/planekit/planekit/authn/user"
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
	tls     *tls.Config // of the proxy
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
	certificate, pool := kubeletCertificate("node-1")
	n.kubelet.TLS = &tls.Config{ClientAuth: tls.RequireAnyClientCert, Certificates: []tls.Certificate{certificate}}
	n.kubelet.Config.ErrorLog = log.New(io.Discard, "", 0)
	n.kubelet.StartTLS()
	t.Cleanup(n.kubelet.Close)
	n.object = nodeAt(t, n.kubelet.Listener.Addr())
	n.tls = &tls.Config{RootCAs: pool, Certificates: n.kubelet.TLS.Certificates}
	n.proxy = newProxy(t, n, n.tls)
	n.serve(t, testPod("node-1"))
	return n
}

func newProxy(t *testing.T, n *node, c *tls.Config, change ...func(*nodeproxy.Config)) *nodeproxy.Proxy {
	t.Helper()
	config := nodeproxy.Config{
		Nodes: nodeproxy.NodesFunc(func(_ context.Context, name string) (*corev1.Node, error) {
			if name != "node-1" {
				return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "nodes"}, name)
			}
			return n.object, nil
		}),
		TLS: c, MayDialNode: anywhere,
	}
	for _, change := range change {
		change(&config)
	}
	p, err := nodeproxy.New(config)
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
	n.front = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mux.ServeHTTP(w, r.WithContext(user.NewContext(r.Context(), &user.Info{Name: r.Header.Get("User")})))
	}))
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

// kubeletCertificate makes a self-signed certificate for the kubelet of a node, and
// the pool that it is verified by.
func kubeletCertificate(node string, hosts ...string) (tls.Certificate, *x509.CertPool) {
	return subjectCertificate(pkix.Name{CommonName: "system:node:" + node, Organization: []string{"system:nodes"}}, append(hosts, node)...)
}

func subjectCertificate(subject pkix.Name, hosts ...string) (tls.Certificate, *x509.CertPool) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		panic(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: subject, NotAfter: time.Now().Add(time.Hour), DNSNames: hosts, IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
		BasicConstraintsValid: true, IsCA: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		panic(err)
	}
	certificate, err := x509.ParseCertificate(der)
	if err != nil {
		panic(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(certificate)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key, Leaf: certificate}, pool
}

// anywhere allows what tests listen on.
func anywhere(netip.Addr) error { return nil }
