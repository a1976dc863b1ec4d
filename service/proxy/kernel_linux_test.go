package proxy_test

import (
	"context"
	"fmt"
	"net/netip"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/service/proxy"
	"github.com/planekit/planekit/service/servicetest"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// cluster is a network with a proxy on its node.
type cluster struct {
	*testing.T
	*servicetest.Network
	services *localcache.Map[*corev1.Service]
	slices   *localcache.Map[*discoveryv1.EndpointSlice]
	nodes    *localcache.Map[*corev1.Node]
	config   proxy.Config
	proxy    *proxy.Proxy
	stop     func()
}

func newCluster(t *testing.T) *cluster {
	t.Helper()
	t.Parallel()
	c := &cluster{T: t, Network: servicetest.NewNetwork(t), services: localcache.NewMap[*corev1.Service](), slices: localcache.NewMap[*discoveryv1.EndpointSlice]()}
	c.nodes = localcache.NewMap(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "node"},
		Status: corev1.NodeStatus{Addresses: []corev1.NodeAddress{
			{Type: corev1.NodeInternalIP, Address: servicetest.NodeIP4.String()}, {Type: corev1.NodeInternalIP, Address: servicetest.NodeIP6.String()}}},
	})
	c.config = proxy.Config{
		Node: "node", Services: c.services, EndpointSlices: c.slices, Nodes: c.nodes, Namespace: c.Node.Path,
		PodRanges:     []netip.Prefix{servicetest.PodRange4, servicetest.PodRange6},
		ServiceRanges: []netip.Prefix{servicetest.ServiceRange4, servicetest.ServiceRange6},
		MinPeriod:     time.Millisecond, CheckPeriod: 20 * time.Millisecond, Log: testr.New(t),
	}
	return c
}

// start runs the proxy until the test ends or stop is called, and waits for its rules.
func (c *cluster) start() {
	c.Helper()
	p, err := proxy.New(c.config)
	if err != nil {
		c.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1) // one answer
	go func() { done <- p.Run(ctx) }()
	stopped := false
	c.proxy, c.stop = p, func() {
		if cancel(); !stopped {
			stopped = true
			if err := <-done; err != nil {
				c.Error(err)
			}
		}
	}
	c.Cleanup(c.stop)
	select {
	case <-p.Ready():
	case <-time.After(patience):
		c.Fatal("the proxy is not ready")
	}
}

// eventually waits until f returns no error.
func (c *cluster) eventually(f func() error) {
	c.Helper()
	var err error
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if err = f(); err == nil {
			return
		}
	}
	c.Fatal(err)
}

// service returns a Service "web" with a port 80 to 8080 in some families.
func service(change ...func(*corev1.Service)) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeClusterIP, ClusterIP: "10.65.200.10", ClusterIPs: []string{"10.65.200.10", "fd65:f000::10"},
			Ports: []corev1.ServicePort{{Name: "http", Port: 80, Protocol: corev1.ProtocolTCP}, {Name: "dns", Port: 53, Protocol: corev1.ProtocolUDP}},
		},
	}
	for _, f := range change {
		f(s)
	}
	return s
}

// slice returns a slice of a service with hosts as ready endpoints.
func slice(name string, family discoveryv1.AddressType, hosts ...*servicetest.Host) *discoveryv1.EndpointSlice {
	s := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: name + "-" + string(family), Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: family,
		Ports: []discoveryv1.EndpointPort{
			{Name: new("http"), Port: new(int32(8080)), Protocol: new(corev1.ProtocolTCP)},
			{Name: new("dns"), Port: new(int32(5353)), Protocol: new(corev1.ProtocolUDP)},
		},
	}
	for _, h := range hosts {
		address := h.IP4
		if family == discoveryv1.AddressTypeIPv6 {
			address = h.IP6
		}
		node := "node"
		if !netip.MustParsePrefix("10.65.1.0/24").Contains(h.IP4) {
			node = "other"
		}
		s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{Addresses: []string{address.String()}, NodeName: &node,
			Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)}})
	}
	return s
}

// endpoints replaces the endpoints of the service "web".
func (c *cluster) endpoints(hosts ...*servicetest.Host) {
	c.slices.Put(slice("web", discoveryv1.AddressTypeIPv4, hosts...))
	c.slices.Put(slice("web", discoveryv1.AddressTypeIPv6, hosts...))
}

func (c *cluster) server(name string, make func(string) *servicetest.Host) *servicetest.Host {
	h := make(name)
	h.Serve("tcp", 8080)
	h.Serve("udp", 5353)
	return h
}

func TestClusterIP(t *testing.T) {
	c := newCluster(t)
	client, near, far := c.Pod("client"), c.server("near", c.Pod), c.server("far", c.Remote)
	c.services.Put(service())
	c.endpoints(near, far)
	c.start()
	for _, from := range []*servicetest.Host{client, c.Node, c.Outside, near} {
		for _, to := range []string{"tcp 10.65.200.10:80", "tcp [fd65:f000::10]:80", "udp 10.65.200.10:53", "udp [fd65:f000::10]:53"} {
			network, address, _ := cut(to)
			seen := map[string]bool{}
			for range 100 {
				answer, err := from.Ask(network, address)
				if err != nil {
					t.Fatalf("%s asks %s: %v", from.Name, to, err)
				}
				seen[answer.Server] = true
				if len(seen) == 2 {
					break
				}
			}
			if len(seen) != 2 {
				t.Errorf("%s asks %s: only %v answer", from.Name, to, seen)
			}
		}
	}
}

func cut(s string) (string, string, bool) {
	var network, address string
	n, err := fmt.Sscan(s, &network, &address)
	return network, address, n == 2 && err == nil
}
