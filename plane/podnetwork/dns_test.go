package podnetwork_test

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/plane/planetest"
	"github.com/planekit/planekit/plane/podnetwork"
)

func TestDNSAddress(t *testing.T) {
	for ranges, want := range map[string]string{"10.96.0.0/12": "10.96.0.10", "fd00::/108": "fd00::a", "10.0.0.0/29": "invalid IP"} {
		if got := podnetwork.DNSAddress([]netip.Prefix{netip.MustParsePrefix(ranges)}).String(); got != want {
			t.Errorf("%s: %s, want %s", ranges, got, want)
		}
	}
	if podnetwork.DNSAddress(nil).IsValid() {
		t.Error("without ranges there is an address")
	}
}

// TestKeepDNS: the Service has the tenth address, and the nodes as endpoints while they come and go, until a user puts
// pods behind it.
func TestKeepDNS(t *testing.T) {
	p := planetest.Start(t)
	api := p.Client()
	node := func(name, address string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: corev1.NodeStatus{
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeHostName, Address: name}, {Type: corev1.NodeInternalIP, Address: address}},
		}}
	}
	nodes := localcache.NewMap(node("b", "192.0.2.2"), node("a", "192.0.2.1"))
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		ended <- podnetwork.KeepDNS(ctx, api, nodes, netip.MustParseAddr("10.96.0.10"), logr.Discard())
	}()
	defer func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	await := func(want string) {
		t.Helper()
		var got string
		for deadline := time.Now().Add(30 * time.Second); got != want; time.Sleep(time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("endpoints %s, want %s", got, want)
			}
			slice, err := typed.EndpointSlices(api).Get(t.Context(), "kube-system", "kube-dns-nodes")
			if err != nil {
				continue // not yet
			}
			got = ""
			for _, e := range slice.Endpoints {
				got += *e.NodeName + "=" + e.Addresses[0] + " "
			}
		}
	}
	await("a=192.0.2.1 b=192.0.2.2 ")
	s, err := typed.Services(api).Get(t.Context(), "kube-system", "kube-dns")
	if err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprintln(s.Spec.ClusterIP, s.Spec.Ports[0].Name, s.Spec.Ports[1].Name, *s.Spec.InternalTrafficPolicy); got != "10.96.0.10 dns dns-tcp Local\n" {
		t.Errorf("service %s", got)
	}
	nodes.Delete("a")
	await("b=192.0.2.2 ")

	s = s.DeepCopy()
	s.Spec.Selector = map[string]string{"k8s-app": "own"}
	if _, err := typed.Services(api).Update(t.Context(), s); err != nil {
		t.Fatal(err)
	}
	nodes.Put(node("c", "192.0.2.3"))
	await("b=192.0.2.2 ")
}
