package nodeproxy_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/planekit/planekit/apiserver/nodeproxy"
	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestServiceProxy asks a service, and checks which of its endpoints are used.
func TestServiceProxy(t *testing.T) {
	n := startNode(t, say(""))
	backend := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprint(w, r.Method, " ", r.URL, " ", r.Header.Get("Authorization"))
	}))
	defer backend.Close()
	at := netip.MustParseAddrPort(backend.Listener.Addr().String())

	service := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: corev1.ServiceSpec{
		Ports: []corev1.ServicePort{{Name: "http", Port: 80}, {Name: "other", Port: 81}},
	}}
	pod := testPod("node-1")
	pod.Status.PodIPs = []corev1.PodIP{{IP: at.Addr().String()}}
	reference := &corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: pod.Name}
	slice := func(name string, endpoints ...discoveryv1.Endpoint) *discoveryv1.EndpointSlice {
		return &discoveryv1.EndpointSlice{
			ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
			AddressType: discoveryv1.AddressTypeIPv4,
			Ports:       []discoveryv1.EndpointPort{{Name: new("http"), Port: new(int32(at.Port()))}}, Endpoints: endpoints,
		}
	}
	slices, pods := localcache.NewMap[*discoveryv1.EndpointSlice](), localcache.NewMap[*corev1.Pod]()
	pods.Put(pod)
	byService := localcache.Scan(slices, func(s *discoveryv1.EndpointSlice) []string {
		return []string{s.Namespace + "/" + s.Labels[discoveryv1.LabelServiceName]}
	})
	proxy := newProxy(t, n, &tls.Config{RootCAs: x509.NewCertPool()}, func(c *nodeproxy.Config) {
		c.MayDial, c.Slices, c.Pods = anywhere, byService, pods
	})
	handler, err := proxy.ServiceProxy(service)
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(handler)
	defer front.Close()
	n.front = front
	ask := func(name, want string) {
		t.Helper()
		code, body := n.ask(t, "PUT", "/api/v1/namespaces/default/services/"+name, http.Header{"Authorization": {"Bearer secret"}})
		if got := fmt.Sprint(code, " ", body); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
	}
	const none = `503 no endpoints available for service "web"`
	ask("web:http/proxy/", none)

	good := discoveryv1.Endpoint{Addresses: []string{at.Addr().String()}, TargetRef: reference}
	notReady, elsewhere, nobodys, gone := good, good, good, good
	notReady.Conditions.Ready = new(false)
	elsewhere.Addresses = []string{"127.0.0.77"} // not an address of the pod
	nobodys.TargetRef = nil
	gone.TargetRef = &corev1.ObjectReference{Kind: "Pod", Namespace: "default", Name: "gone"}
	slices.Put(slice("bad", notReady, elsewhere, nobodys, gone))
	ask("web:http/proxy/", none)
	slices.Put(slice("good", good))
	for name, want := range map[string]string{
		"web:http/proxy/":            "200 PUT / ",
		"web:80/proxy/a/b?c=d":       "200 PUT /a/b?c=d ",
		"http:web:http/proxy/x":      "200 PUT /x ",
		"web/proxy/":                 none, // none of its ports is without a name
		"web:81/proxy/":              none, // no slice has this port
		"web:82/proxy/":              `503 no service port 82 found for service "web"`,
		"ftp:web:http/proxy/":        `400 scheme "ftp" must be http or https`,
		"http:web:http:extra/proxy/": `400 invalid service request "http:web:http:extra"`,
	} {
		ask(name, want)
	}
	if _, err := newProxy(t, n, n.tls).ServiceProxy(service); err == nil {
		t.Error("a proxy without slices serves services")
	}
}
