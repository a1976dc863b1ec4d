package probe_test

import (
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/planekit/planekit/kubelet/probe"
)

// TestNoCredentials: a probe or hook whose author names another host, such as the API server, gets there as
// any client would: without the node's certificate, and without proxies or headers of the node. A redirect to
// another host is not followed.
func TestNoCredentials(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1")
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	elsewhere := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		t.Error("a redirect to another host was followed")
	}))
	defer elsewhere.Close()
	_, other, err := net.SplitHostPort(elsewhere.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	requests := 0
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		requests++
		for name := range r.Header {
			if name != "User-Agent" && name != "Accept" && name != "Connection" {
				t.Errorf("the request has the header %s", name)
			}
		}
		if len(r.TLS.PeerCertificates) > 0 {
			t.Errorf("the request has the certificate of %s", r.TLS.PeerCertificates[0].Subject)
		}
		http.Redirect(w, r, "http://localhost:"+other, http.StatusFound)
	}))
	server.TLS = &tls.Config{ClientAuth: tls.RequestClientCert}
	server.StartTLS()
	defer server.Close()
	port := server.Listener.Addr().(*net.TCPAddr).Port
	action := &corev1.HTTPGetAction{Host: "127.0.0.1", Port: intstr.FromInt(port), Scheme: corev1.URISchemeHTTPS}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	client := &probe.Client{}
	target := probe.Target{Pod: &corev1.Pod{}, Container: &corev1.Container{Name: "web"}, PodIP: "192.0.2.1"}
	result, output, err := client.Probe(ctx, target, &corev1.ProbeHandler{HTTPGet: action})
	if err != nil || result != probe.Warning {
		t.Errorf("Probe() = %v, %q, %v; want %v", result, output, err, probe.Warning)
	}
	response, err := client.Get(ctx, target, action) // as hooks do
	if err != nil || response.StatusCode != http.StatusFound {
		t.Fatalf("Get() = %v, %v; want the redirect", response, err)
	}
	_ = response.Body.Close()
	if requests != 2 {
		t.Errorf("%d requests, want 2", requests)
	}
}
