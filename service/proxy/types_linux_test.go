package proxy_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/planekit/planekit/service/servicetest"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// silence is how long a test waits for an answer that must not come.
const silence = 100 * time.Millisecond

// reach checks who answers: server names; "refused" or "silent" if none does.
func (c *cluster) reach(from *servicetest.Host, to string, want ...string) {
	c.Helper()
	network, address, _ := cut(to)
	c.eventually(func() error {
		seen := map[string]bool{}
		for range 200 {
			seen[c.outcome(from, network, address, want)] = true
			if len(seen) >= len(want) {
				break
			}
		}
		for _, w := range want {
			if !seen[w] || len(seen) > len(want) {
				return fmt.Errorf("%s asks %s: %v answer, want %v", from.Name, to, seen, want)
			}
		}
		return nil
	})
}

func (c *cluster) outcome(from *servicetest.Host, network, address string, want []string) string {
	timeout := patience
	if want[0] == "silent" {
		timeout = silence
	}
	answer, err := from.AskWithin(network, address, timeout)
	var slow interface{ Timeout() bool }
	switch {
	case err == nil:
		return answer.Server
	case errors.Is(err, syscall.ECONNREFUSED), network == "udp" && errors.Is(err, syscall.EPERM):
		// A datagram of the node itself is refused before it is sent.
		return "refused"
	case errors.As(err, &slow) && slow.Timeout():
		return "silent"
	}
	return err.Error()
}

// seenFrom checks which address a server sees.
func (c *cluster) seenFrom(from *servicetest.Host, to string, want ...string) {
	c.Helper()
	network, address, _ := cut(to)
	for range 20 {
		answer, err := from.Ask(network, address)
		if err != nil {
			c.Errorf("%s asks %s: %v", from.Name, to, err)
			return
		}
		if !strings.Contains(" "+strings.Join(want, " ")+" ", " "+answer.Client.String()+" ") {
			c.Errorf("%s asks %s: %s saw %v, want one of %v", from.Name, to, answer.Server, answer.Client, want)
			return
		}
	}
}

func TestExternalAddresses(t *testing.T) {
	c := newCluster(t)
	client, near, far := c.Pod("client"), c.server("near", c.Pod), c.server("far", c.Remote)
	c.services.Put(service(func(s *corev1.Service) {
		s.Spec.Type = corev1.ServiceTypeLoadBalancer
		s.Spec.Ports[0].NodePort, s.Spec.Ports[1].NodePort = 30080, 30053
		s.Spec.ExternalIPs = []string{"10.65.220.1", "fd65:2200::1"}
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "10.65.221.1"}, {IP: "10.65.221.9", IPMode: new(corev1.LoadBalancerIPModeProxy)}}
	}))
	c.endpoints(near, far)
	c.start()
	for _, from := range []*servicetest.Host{client, c.Node, c.Outside} {
		for _, to := range []string{"tcp 10.65.100.1:30080", "udp 10.65.100.1:30053", "tcp [fd65:1000::1]:30080",
			"tcp 10.65.220.1:80", "tcp [fd65:2200::1]:80", "tcp 10.65.221.1:80"} {
			c.reach(from, to, "near", "far")
		}
	}
	c.reach(c.Node, "tcp 127.0.0.1:30080", "refused")
	// The gateway address of the bridge is none of the node's status.
	c.reach(client, "tcp 10.65.1.1:30080", "refused")
	c.seenFrom(c.Outside, "tcp 10.65.100.1:30080", "10.65.1.1", "10.65.2.1") // the node, masqueraded
}

func TestSourceRanges(t *testing.T) {
	c := newCluster(t)
	client, near := c.Pod("client"), c.server("near", c.Pod)
	s := service(func(s *corev1.Service) {
		s.Spec.Type = corev1.ServiceTypeLoadBalancer
		s.Spec.Ports[0].NodePort = 30080
		s.Spec.LoadBalancerSourceRanges = []string{" 10.65.1.0/24 "}
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "10.65.221.1"}}
	})
	c.services.Put(s)
	c.endpoints(near)
	c.start()
	c.reach(client, "tcp 10.65.221.1:80", "near")
	c.reach(c.Outside, "tcp 10.65.221.1:80", "silent")
	c.reach(c.Outside, "tcp 10.65.100.1:30080", "near") // node ports have no ranges
	s = s.DeepCopy()
	s.Spec.LoadBalancerSourceRanges = []string{"10.65.100.0/24"}
	c.services.Put(s)
	c.reach(c.Outside, "tcp 10.65.221.1:80", "near")
	c.reach(client, "tcp 10.65.221.1:80", "silent")
}

func TestPolicies(t *testing.T) {
	c := newCluster(t)
	client, near, far := c.Pod("client"), c.server("near", c.Pod), c.server("far", c.Remote)
	s := service(func(s *corev1.Service) {
		s.Spec.Type = corev1.ServiceTypeLoadBalancer
		s.Spec.Ports[0].NodePort, s.Spec.HealthCheckNodePort = 30080, 30099
		s.Spec.ExternalTrafficPolicy, s.Spec.InternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal, new(corev1.ServiceInternalTrafficPolicyLocal)
	})
	c.services.Put(s)
	c.endpoints(near, far)
	c.start()
	c.reach(client, "tcp 10.65.200.10:80", "near")
	c.reach(c.Outside, "tcp 10.65.100.1:30080", "near")
	c.seenFrom(c.Outside, "tcp 10.65.100.1:30080", c.Outside.IP4.String())
	// Pods and the node itself are not subject to the external policy.
	c.reach(client, "tcp 10.65.100.1:30080", "near", "far")
	c.reach(c.Node, "tcp 10.65.100.1:30080", "near", "far")
	c.healthCheck(http.StatusOK, 1)
	c.endpoints(far)
	c.reach(client, "tcp 10.65.200.10:80", "silent")
	c.reach(c.Outside, "tcp 10.65.100.1:30080", "silent")
	c.reach(client, "tcp 10.65.100.1:30080", "far")
	c.healthCheck(http.StatusServiceUnavailable, 0)
	c.endpoints()
	c.reach(client, "tcp 10.65.200.10:80", "refused")
	c.reach(c.Outside, "tcp 10.65.100.1:30080", "refused")
	c.services.Delete("default/web")
	c.eventually(func() error {
		if _, err := c.Outside.AskWithin("tcp", "10.65.100.1:30099", patience); !errors.Is(err, syscall.ECONNREFUSED) {
			return fmt.Errorf("the health check still answers: %v", err)
		}
		return nil
	})
}

// healthCheck asks the health check node port from outside.
func (c *cluster) healthCheck(code, endpoints int) {
	c.Helper()
	c.eventually(func() error {
		conn, err := c.Outside.Dial("tcp", "10.65.100.1:30099", patience)
		if err != nil {
			return err
		}
		defer conn.Close()
		if _, err := io.WriteString(conn, "GET / HTTP/1.0\r\n\r\n"); err != nil {
			return err
		}
		all, err := io.ReadAll(conn)
		if err != nil {
			return err
		}
		head, body, _ := strings.Cut(string(all), "\r\n\r\n")
		var answer struct {
			Service             struct{ Namespace, Name string }
			LocalEndpoints      int
			ServiceProxyHealthy bool
		}
		if err := json.Unmarshal([]byte(body), &answer); err != nil {
			return fmt.Errorf("%w in %q", err, all)
		}
		if !strings.HasPrefix(head, fmt.Sprintf("HTTP/1.0 %d", code)) || answer.LocalEndpoints != endpoints ||
			!answer.ServiceProxyHealthy || answer.Service.Name != "web" ||
			!strings.Contains(head, fmt.Sprintf("X-Load-Balancing-Endpoint-Weight: %d", endpoints)) {
			return fmt.Errorf("answer %q", all)
		}
		return nil
	})
}

func TestAffinity(t *testing.T) {
	c := newCluster(t)
	near, far, third := c.server("near", c.Pod), c.server("far", c.Remote), c.server("third", c.Pod)
	clients := []*servicetest.Host{c.Pod("client"), c.Outside, near}
	s := service(func(s *corev1.Service) { s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP })
	c.services.Put(s)
	c.endpoints(near, far, third)
	c.start()
	for _, client := range clients {
		for _, to := range []string{"10.65.200.10:80", "[fd65:f000::10]:80"} {
			first, err := client.Ask("tcp", to)
			if err != nil {
				t.Fatal(err)
			}
			for range 30 {
				if a, err := client.Ask("tcp", to); err != nil || a.Server != first.Server {
					t.Fatalf("%s asks %s: %v, %v after %s", client.Name, to, a, err, first.Server)
				}
			}
		}
	}
	// A restart keeps who belongs to whom, and a client whose endpoint ends gets another one and stays there.
	first, _ := clients[0].Ask("tcp", "10.65.200.10:80")
	c.stop()
	c.start()
	var rest []*servicetest.Host
	for _, h := range []*servicetest.Host{near, far, third} {
		if h.Name != first.Server {
			rest = append(rest, h)
		}
	}
	for range 30 {
		if a, err := clients[0].Ask("tcp", "10.65.200.10:80"); err != nil || a.Server != first.Server {
			t.Fatalf("after a restart: %v, %v instead of %s", a, err, first.Server)
		}
	}
	c.endpoints(rest...)
	c.eventually(func() error {
		a, err := clients[0].Ask("tcp", "10.65.200.10:80")
		if err == nil && a.Server == first.Server {
			err = errors.New("the endpoint that has ended still answers")
		}
		first = a
		return err
	})
	for range 30 {
		if a, err := clients[0].Ask("tcp", "10.65.200.10:80"); err != nil || a.Server != first.Server {
			t.Fatalf("after a change: %v, %v instead of %s", a, err, first.Server)
		}
	}
	// With a timeout of a second, the client is forgotten.
	s = s.DeepCopy()
	s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(int32(1))}}
	c.services.Put(s)
	c.eventually(func() error {
		time.Sleep(1100 * time.Millisecond)
		a, err := clients[0].Ask("tcp", "10.65.200.10:80")
		if err == nil && a.Server == first.Server {
			err = errors.New("the client is still remembered")
		}
		return err
	})
}

func TestHairpin(t *testing.T) {
	c := newCluster(t)
	near := c.server("near", c.Pod)
	c.services.Put(service())
	c.endpoints(near)
	c.start()
	for _, to := range []string{"tcp 10.65.200.10:80", "udp 10.65.200.10:53", "tcp [fd65:f000::10]:80"} {
		c.reach(near, to, "near")
	}
	c.seenFrom(near, "tcp 10.65.200.10:80", "10.65.1.1")
}

func TestRefused(t *testing.T) {
	c := newCluster(t)
	client, near := c.Pod("client"), c.server("near", c.Pod)
	c.services.Put(service(func(s *corev1.Service) {
		s.Spec.Type = corev1.ServiceTypeNodePort
		s.Spec.Ports[0].NodePort = 30080
	}))
	c.start()
	for _, from := range []*servicetest.Host{client, c.Node, c.Outside} {
		for _, to := range []string{"tcp 10.65.200.10:80", "udp 10.65.200.10:53", "tcp [fd65:f000::10]:80", "tcp 10.65.200.10:81", "tcp 10.65.100.1:30080"} {
			c.reach(from, to, "refused")
		}
		c.reach(from, "tcp 10.65.200.99:80", "silent") // an address that no service has
	}
	c.endpoints(near)
	c.reach(client, "tcp 10.65.200.10:80", "near")
	c.reach(client, "tcp 10.65.200.10:81", "refused")
	c.services.Delete("default/web")
	c.reach(client, "tcp 10.65.200.10:80", "silent")
}

func TestTerminatingAndHints(t *testing.T) {
	c := newCluster(t)
	client, near, far := c.Pod("client"), c.server("near", c.Pod), c.server("far", c.Remote)
	c.services.Put(service())
	put := func(change func(near, far *discoveryv1.Endpoint)) {
		s := slice("web", discoveryv1.AddressTypeIPv4, near, far)
		change(&s.Endpoints[0], &s.Endpoints[1])
		c.slices.Put(s)
	}
	put(func(near, _ *discoveryv1.Endpoint) {
		near.Conditions.Ready, near.Conditions.Terminating = new(false), new(true)
	})
	c.start()
	c.reach(client, "tcp 10.65.200.10:80", "far")
	put(func(near, far *discoveryv1.Endpoint) {
		near.Conditions.Ready, near.Conditions.Terminating = new(false), new(true)
		far.Conditions.Ready, far.Conditions.Serving = new(false), new(false)
	})
	c.reach(client, "tcp 10.65.200.10:80", "near") // which still serves
	hint := func(zone string) *discoveryv1.EndpointHints {
		return &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: zone}}}
	}
	put(func(near, far *discoveryv1.Endpoint) { near.Hints, far.Hints = hint("a"), hint("b") })
	c.reach(client, "tcp 10.65.200.10:80", "near", "far") // the node has no zone
	node, _ := c.nodes.Get("node")
	node = node.DeepCopy()
	node.Labels = map[string]string{corev1.LabelTopologyZone: "b"}
	c.nodes.Put(node)
	c.reach(client, "tcp 10.65.200.10:80", "far")
	put(func(near, far *discoveryv1.Endpoint) {
		near.Hints, far.Hints = hint("a"), hint("b")
		near.Hints.ForNodes, far.Hints.ForNodes = []discoveryv1.ForNode{{Name: "node"}}, []discoveryv1.ForNode{{Name: "other"}}
	})
	c.reach(client, "tcp 10.65.200.10:80", "near")
}

func TestHealthHandler(t *testing.T) {
	c := newCluster(t)
	c.start()
	ask := func(path string) int {
		w := httptest.NewRecorder()
		c.proxy.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		return w.Code
	}
	if ask("/healthz") != http.StatusOK || ask("/livez") != http.StatusOK || ask("/metrics") != http.StatusNotFound {
		t.Error("a healthy proxy does not say so")
	}
	node, _ := c.nodes.Get("node")
	node = node.DeepCopy()
	node.Spec.Taints = []corev1.Taint{{Key: "ToBeDeletedByClusterAutoscaler", Effect: corev1.TaintEffectNoSchedule}}
	c.nodes.Put(node)
	if ask("/healthz") != http.StatusServiceUnavailable || ask("/livez") != http.StatusOK {
		t.Error("the node is about to be removed, and load balancers are not told")
	}
}

func TestNodePortRangesAndMasqueradeAll(t *testing.T) {
	c := newCluster(t)
	client, near := c.Pod("client"), c.server("near", c.Pod)
	c.services.Put(service(func(s *corev1.Service) {
		s.Spec.Type = corev1.ServiceTypeNodePort
		s.Spec.Ports[0].NodePort = 30080
	}))
	c.endpoints(near)
	c.config.NodePortRanges, c.config.MasqueradeAll = []netip.Prefix{netip.MustParsePrefix("0.0.0.0/0"), netip.MustParsePrefix("fd65:1::/64")}, true
	c.start()
	c.reach(client, "tcp 10.65.1.1:30080", "near")
	c.reach(c.Outside, "tcp 10.65.100.1:30080", "near")
	c.reach(client, "tcp [fd65:1::1]:30080", "near")
	c.reach(c.Node, "tcp 127.0.0.1:30080", "refused")
	c.reach(c.Outside, "tcp [fd65:1000::1]:30080", "refused") // which is in no range
	c.seenFrom(client, "tcp 10.65.200.10:80", "10.65.1.1")
}

// An external address that two services want belongs to the older one, and the younger one gets an event.
func TestSharedAddress(t *testing.T) {
	c := newCluster(t)
	client, near, far := c.Pod("client"), c.server("near", c.Pod), c.server("far", c.Remote)
	events := make(recorder, 10) // more than there are
	c.config.Events = events
	shared := func(name, ip string, at int64) {
		c.services.Put(service(func(s *corev1.Service) {
			s.Name, s.Spec.ClusterIPs, s.CreationTimestamp = name, []string{ip}, metav1.Unix(at, 0)
			s.Spec.ExternalIPs = []string{"10.65.220.7"}
		}))
	}
	shared("web", "10.65.200.10", 2)
	c.endpoints(near)
	c.start()
	c.reach(client, "tcp 10.65.220.7:80", "near")
	c.slices.Put(slice("old", discoveryv1.AddressTypeIPv4, far))
	shared("old", "10.65.200.11", 1)
	c.reach(client, "tcp 10.65.220.7:80", "far")
	shared("web", "10.65.200.12", 2)
	select {
	case e := <-events:
		if e != "web AddressInUse service default/old already has 10.65.220.7 . tcp . 80" && e != "web AddressInUse service default/old already has 10.65.220.7 . udp . 53" {
			t.Errorf("event %q", e)
		}
	case <-time.After(patience):
		t.Error("no event")
	}
	c.services.Delete("default/old")
	c.reach(client, "tcp 10.65.220.7:80", "near")
}

type recorder chan string

func (r recorder) Event(s *corev1.Service, _, reason, message string) {
	r <- s.Name + " " + reason + " " + message
}
