package podnetwork_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"syscall"
	"testing"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/plane/podnetwork"
	"github.com/planekit/planekit/plane/stack"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestSimulated: names and addresses of services lead to pods, by the node and namespace of a client, and
// nothing else can be reached.
func TestSimulated(t *testing.T) {
	web := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: corev1.ServiceSpec{
			ClusterIP: "10.96.0.10", Ports: []corev1.ServicePort{{Port: 80}},
			InternalTrafficPolicy: new(corev1.ServiceInternalTrafficPolicyLocal),
		},
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: "web", Labels: map[string]string{discoveryv1.LabelServiceName: "web"}},
		AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: new(""), Port: new(int32(8080))}},
		Endpoints: []discoveryv1.Endpoint{
			{Addresses: []string{"10.244.0.2"}, NodeName: new("node-1")}, {Addresses: []string{"10.244.1.2"}, NodeName: new("node-2")},
		},
	}
	s := stack.New()
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	network, err := podnetwork.StartSimulated(s, podnetwork.LocalConfig{
		Services: localcache.NewMap(web), EndpointSlices: localcache.NewMap(slice), Nodes: []string{"node-1", "node-2"},
	}, func(to netip.AddrPort) (net.Conn, error) {
		if to.Port() != 8080 {
			return nil, syscall.EHOSTUNREACH
		}
		client, server := net.Pipe()
		go func() { fmt.Fprint(server, to.Addr()); server.Close() }()
		return client, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	go func() { ended <- s.Run(ctx) }()
	for _, c := range []struct{ node, namespace, address, want string }{
		{"node-1", "default", "web:80", "10.244.0.2"},
		{"node-2", "default", "web:80", "10.244.1.2"},
		{"node-1", "other", "web.default.svc.cluster.local:80", "10.244.0.2"},
		{"node-1", "other", "10.96.0.10:80", "10.244.0.2"},
		{"node-1", "other", "10.244.1.2:8080", "10.244.1.2"},
	} {
		conn, err := network.DialFrom(c.node)(t.Context(), c.namespace, "tcp", c.address)
		if err != nil {
			t.Errorf("DialFrom(%s)(%s, %s): %v", c.node, c.namespace, c.address, err)
			continue
		}
		if text, err := io.ReadAll(conn); err != nil || string(text) != c.want {
			t.Errorf("DialFrom(%s)(%s, %s) reads %q, %v, want %q", c.node, c.namespace, c.address, text, err, c.want)
		}
		conn.Close()
	}
	for _, c := range []struct{ namespace, network, address string }{
		{"other", "tcp", "web:80"}, {"default", "tcp", "web:81"}, {"default", "tcp", "example.com:80"}, {"default", "tcp", "127.0.0.1:22"}, {"default", "udp", "web:80"},
	} {
		if conn, err := network.DialFrom("node-1")(t.Context(), c.namespace, c.network, c.address); err == nil {
			conn.Close()
			t.Errorf("%+v was reached", c)
		}
	}
	cancel()
	if err := errors.Join(<-ended, s.Stop()); err != nil {
		t.Error(err)
	}
	if _, err := podnetwork.StartSimulated(stack.New(), podnetwork.LocalConfig{}, nil); err == nil {
		t.Error("a network without nodes")
	}
}
