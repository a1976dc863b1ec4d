package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/service/proxy"
	"github.com/planekit/planekit/service/servicetest"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// stage is a network with hosts that ask.
type stage struct {
	*testing.T
	*servicetest.Network
	clients []*servicetest.Host
	state   state
}

func newStage(t *testing.T) *stage {
	s := &stage{T: t, Network: servicetest.NewNetwork(t)}
	near, far := s.Pod("near"), s.Remote("far")
	for _, h := range []*servicetest.Host{near, far} {
		h.Serve("tcp", 8080)
		h.Serve("udp", 8080)
	}
	s.clients = []*servicetest.Host{s.Pod("client"), near, s.Node, s.Outside}
	s.state = state{PodRange: servicetest.PodRange4.String(), ServiceRange: servicetest.ServiceRange4.String(), NodeIP: servicetest.NodeIP4.String()}
	for i, v := range variants {
		s.add(i, v, near, far)
	}
	return s
}

// variant is a service of one type, and which of the two endpoints it has.
type variant struct {
	name      string
	near, far bool
	change    func(*corev1.Service, *discoveryv1.EndpointSlice)
}

var variants = []variant{
	{"plain", true, true, nil},
	{"empty", false, false, nil},
	{"udp", true, true, func(s *corev1.Service, e *discoveryv1.EndpointSlice) {
		s.Spec.Ports[0].Protocol, e.Ports[0].Protocol = corev1.ProtocolUDP, new(corev1.ProtocolUDP)
	}},
	{"internal local", true, true, internalLocal},
	{"internal local, none", false, true, internalLocal},
	{"external local", true, true, externalLocal},
	{"external local, none", false, true, externalLocal},
	{"affinity", true, true, func(s *corev1.Service, _ *discoveryv1.EndpointSlice) {
		s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
		s.Spec.SessionAffinityConfig = &corev1.SessionAffinityConfig{ClientIP: &corev1.ClientIPConfig{TimeoutSeconds: new(int32(100))}}
	}},
	{"source ranges", true, true, func(s *corev1.Service, _ *discoveryv1.EndpointSlice) {
		s.Spec.LoadBalancerSourceRanges = []string{"10.65.1.0/24"}
	}},
	{"source ranges with the node", true, true, func(s *corev1.Service, _ *discoveryv1.EndpointSlice) {
		s.Spec.LoadBalancerSourceRanges = []string{"10.65.100.0/24"}
	}},
	{"terminating", true, true, func(_ *corev1.Service, e *discoveryv1.EndpointSlice) {
		e.Endpoints[0].Conditions = discoveryv1.EndpointConditions{Ready: new(false), Serving: new(true), Terminating: new(true)}
	}},
	{"all terminating", true, true, func(_ *corev1.Service, e *discoveryv1.EndpointSlice) {
		e.Endpoints[0].Conditions = discoveryv1.EndpointConditions{Ready: new(false), Serving: new(true), Terminating: new(true)}
		e.Endpoints[1].Conditions = discoveryv1.EndpointConditions{Ready: new(false), Serving: new(false), Terminating: new(true)}
	}},
	{"hints", true, true, func(_ *corev1.Service, e *discoveryv1.EndpointSlice) {
		for i, name := range []string{"node", "other"} {
			e.Endpoints[i].Hints = &discoveryv1.EndpointHints{ForZones: []discoveryv1.ForZone{{Name: name}}, ForNodes: []discoveryv1.ForNode{{Name: name}}}
		}
	}},
	{"proxying balancer", true, true, func(s *corev1.Service, _ *discoveryv1.EndpointSlice) {
		s.Status.LoadBalancer.Ingress[0].IPMode = new(corev1.LoadBalancerIPModeProxy)
	}},
}

func internalLocal(s *corev1.Service, _ *discoveryv1.EndpointSlice) {
	s.Spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyLocal)
}

func externalLocal(s *corev1.Service, _ *discoveryv1.EndpointSlice) {
	s.Spec.ExternalTrafficPolicy, s.Spec.HealthCheckNodePort = corev1.ServiceExternalTrafficPolicyLocal, s.Spec.Ports[0].NodePort+1000
}

// add adds a service with a node port, an external address and a load balancer.
func (s *stage) add(i int, v variant, near, far *servicetest.Host) {
	name := fmt.Sprint("s", i)
	service := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.ServiceSpec{
			Type: corev1.ServiceTypeLoadBalancer, ClusterIP: fmt.Sprint("10.65.200.", i+1), ClusterIPs: []string{fmt.Sprint("10.65.200.", i+1)},
			IPFamilies: []corev1.IPFamily{corev1.IPv4Protocol}, InternalTrafficPolicy: new(corev1.ServiceInternalTrafficPolicyCluster),
			ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyCluster, SessionAffinity: corev1.ServiceAffinityNone,
			Ports:       []corev1.ServicePort{{Name: "p", Port: 80, NodePort: int32(30000 + i), Protocol: corev1.ProtocolTCP}},
			ExternalIPs: []string{fmt.Sprint("10.65.210.", i+1)},
		},
		Status: corev1.ServiceStatus{LoadBalancer: corev1.LoadBalancerStatus{Ingress: []corev1.LoadBalancerIngress{{IP: fmt.Sprint("10.65.211.", i+1), IPMode: new(corev1.LoadBalancerIPModeVIP)}}}},
	}
	slice := &discoveryv1.EndpointSlice{
		ObjectMeta:  metav1.ObjectMeta{Namespace: "default", Name: name, Labels: map[string]string{discoveryv1.LabelServiceName: name}},
		AddressType: discoveryv1.AddressTypeIPv4,
		Ports:       []discoveryv1.EndpointPort{{Name: new("p"), Port: new(int32(8080)), Protocol: new(corev1.ProtocolTCP)}},
	}
	for _, h := range []struct {
		yes  bool
		host *servicetest.Host
		node string
	}{{v.near, near, "node"}, {v.far, far, "other"}} {
		if h.yes {
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{h.host.IP4.String()}, NodeName: &h.node,
				Conditions: discoveryv1.EndpointConditions{Ready: new(true), Serving: new(true), Terminating: new(false)}})
		}
	}
	if v.change != nil {
		v.change(service, slice)
	}
	s.state.Services, s.state.Slices = append(s.state.Services, service), append(s.state.Slices, slice)
}

// silence is how long an answer may take.
const silence = 150 * time.Millisecond

// matrix asks every address of every service from every client.
func (s *stage) matrix() map[string]string {
	all := map[string]string{}
	for i, service := range s.state.Services {
		network := strings.ToLower(string(service.Spec.Ports[0].Protocol))
		addresses := []string{fmt.Sprint("10.65.200.", i+1, ":80"), fmt.Sprint("10.65.210.", i+1, ":80"), fmt.Sprint("10.65.211.", i+1, ":80"),
			fmt.Sprint("10.65.100.1:", 30000+i), fmt.Sprint("10.65.200.", i+1, ":81")}
		for _, from := range s.clients {
			for _, to := range addresses {
				all[fmt.Sprintf("%s: %s to %s", variants[i].name, from.Name, to)] = s.outcomes(from, network, to, service.Spec.SessionAffinity)
			}
		}
	}
	all["an address that no service has"] = s.outcomes(s.clients[0], "tcp", "10.65.200.200:80", "")
	all["loopback"] = s.outcomes(s.Node, "tcp", "127.0.0.1:30000", "")
	return all
}

// outcomes returns which servers answer and which client they see, or how the question is refused.
func (s *stage) outcomes(from *servicetest.Host, network, to string, affinity corev1.ServiceAffinity) string {
	seen := map[string]bool{}
	for range 40 {
		answer, err := from.AskWithin(network, to, silence)
		if slow, ok := errors.AsType[net.Error](err); ok && slow.Timeout() {
			answer, err = from.AskWithin(network, to, 4*silence) // on a busy machine
		}
		slow, _ := errors.AsType[net.Error](err)
		switch {
		case err == nil:
			seen[fmt.Sprintf("%s saw %v", answer.Server, answer.Client)] = true
		case errors.Is(err, syscall.ECONNREFUSED), errors.Is(err, syscall.EPERM):
			return "refused"
		case slow != nil && slow.Timeout():
			return "silent"
		default:
			return err.Error()
		}
		if len(seen) > 1 {
			break
		}
	}
	if affinity == corev1.ServiceAffinityClientIP {
		return fmt.Sprintf("%d endpoint(s)", len(seen))
	}
	return strings.Join(slices.Sorted(maps.Keys(seen)), ", ")
}

// withKubeProxy runs f while the rules are those of kube-proxy.
func (s *stage) withKubeProxy(f func()) {
	c := exec.Command(os.Args[0])
	c.Env = append(os.Environ(), asKubeProxy+"=yes")
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		s.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		s.Fatal(err)
	}
	s.Node.Inside(c.Start)
	defer func() {
		in.Close()
		_ = c.Wait() // it ends with its input, which is an error to it
		s.Node.Run("nft", "flush", "ruleset")
	}()
	if err := json.NewEncoder(in).Encode(s.state); err != nil {
		s.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 10)); err != nil {
		s.Fatal("kube-proxy: ", err)
	}
	f()
}

// withPlanekit runs f while the rules are planekit's.
func (s *stage) withPlanekit(f func()) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node"}, Status: corev1.NodeStatus{
		Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: s.state.NodeIP}}}}
	p, err := proxy.New(proxy.Config{
		Node: "node", Services: localcache.NewMap(s.state.Services...), EndpointSlices: localcache.NewMap(s.state.Slices...), Nodes: localcache.NewMap(node),
		Namespace: s.Node.Path, PodRanges: []netip.Prefix{servicetest.PodRange4}, ServiceRanges: []netip.Prefix{servicetest.ServiceRange4},
	})
	if err != nil {
		s.Fatal(err)
	}
	ctx, cancel := context.WithCancel(s.Context())
	done := make(chan error, 1) // one answer
	go func() { done <- p.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			s.Error(err)
		}
	}()
	<-p.Ready()
	f()
}

func TestSameMatrix(t *testing.T) {
	s := newStage(t)
	var theirs, ours map[string]string
	s.withKubeProxy(func() { theirs = s.matrix() })
	s.withPlanekit(func() { ours = s.matrix() })
	answers := 0
	for _, question := range slices.Sorted(maps.Keys(theirs)) {
		if theirs[question] != ours[question] {
			t.Errorf("%s: %q with kube-proxy, %q with planekit", question, theirs[question], ours[question])
		}
		if strings.Contains(theirs[question], "saw") {
			answers++
		}
	}
	if answers < 100 {
		t.Errorf("only %d of %d questions were answered", answers, len(theirs))
	}
	t.Logf("%d questions, %d answered", len(theirs), answers)
}
