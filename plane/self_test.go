package plane_test

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/planetest"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestServerDoesNotConnectToItself: a pod whose address is one of the API server's is not connected to: that
// of another listener than the first one at its port, that by which it is advertised, and that of its
// Service or of another one, which may lead to it too.
func TestServerDoesNotConnectToItself(t *testing.T) {
	first, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := first.Addr().(*net.TCPAddr).AddrPort().Port()
	// The second accepts connections that never reach the server: only the refusal counts.
	host := hostAddress(t)
	second, err := net.Listen("tcp", netip.AddrPortFrom(host, port).String())
	if err != nil {
		t.Fatal(err)
	}
	defer second.Close()
	advertised := netip.MustParseAddrPort("192.0.2.7:6443")
	p := planetest.Start(t, planetest.With(func(c *plane.Config) {
		c.Listener, c.Advertise = first, advertised
	}))
	pods := typed.Pods(p.Client())
	for i, at := range []netip.AddrPort{netip.AddrPortFrom(host, port), advertised, netip.MustParseAddrPort("10.96.0.1:443"), netip.MustParseAddrPort("10.96.9.9:443")} {
		pod := &corev1.Pod{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("mirror-", i)},
			Spec:       corev1.PodSpec{NodeName: "none", Containers: []corev1.Container{{Name: "a", Image: "a"}}},
		}
		made, err := pods.Create(t.Context(), pod)
		if err != nil {
			t.Fatal(err)
		}
		made.Status.PodIP, made.Status.PodIPs = at.Addr().String(), []corev1.PodIP{{IP: at.Addr().String()}}
		if _, err := pods.UpdateStatus(t.Context(), made); err != nil {
			t.Fatal(err)
		}
		path := fmt.Sprintf("/api/v1/namespaces/default/pods/https:%s:%d/proxy/version", pod.Name, at.Port())
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		_, err = p.Client().Do(ctx, client.Request{Method: "GET", Path: path})
		cancel()
		if err == nil || !strings.Contains(err.Error(), "address not allowed") {
			t.Errorf("GET %s of a pod at %v: %v, want it refused", path, at, err)
		}
	}
}

// hostAddress returns an address of this machine that is not the loopback address.
func hostAddress(t *testing.T) netip.Addr {
	addresses, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range addresses {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() && n.IP.To4() != nil {
			return netip.AddrFrom4([4]byte(n.IP.To4()))
		}
	}
	t.Fatal("this machine has no address")
	return netip.Addr{}
}
