package nodeproxy_test

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"

	"github.com/planekit/planekit/apiserver/nodeproxy"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func Example() {
	kubelet := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "the kubelet was asked for", r.URL)
	}))
	certificate, authority := kubeletCertificate("node-1") // CN=system:node:node-1,O=system:nodes
	kubelet.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}}
	kubelet.StartTLS()
	defer kubelet.Close()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}, Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "127.0.0.1"}}}}
	fmt.Sscanf(kubelet.URL, "https://127.0.0.1:%d", &node.Status.DaemonEndpoints.KubeletEndpoint.Port)

	proxy, err := nodeproxy.New(nodeproxy.Config{
		Nodes:       nodeproxy.NodesFunc(func(context.Context, string) (*corev1.Node, error) { return node, nil }),
		TLS:         &tls.Config{RootCAs: authority},
		MayDialNode: func(netip.Addr) error { return nil }, // this one is on the loopback address
	})
	if err != nil {
		panic(err)
	}
	defer proxy.Close()
	log, err := proxy.Log(&corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:       corev1.PodSpec{NodeName: "node-1", Containers: []corev1.Container{{Name: "nginx"}}},
	})
	if err != nil {
		panic(err)
	}
	answer := httptest.NewRecorder()
	log.ServeHTTP(answer, httptest.NewRequest("GET", "/api/v1/namespaces/default/pods/web/log?tailLines=5", nil))
	text, _ := io.ReadAll(answer.Result().Body)
	fmt.Print(string(text))
	// Output:
	// the kubelet was asked for /containerLogs/default/web/nginx?tailLines=5
}
