package policy_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-logr/logr/testr"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/service/policy"
	"github.com/planekit/planekit/service/ruleset"
	"github.com/planekit/planekit/service/servicetest"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// patience bounds what must come.
const patience = 30 * time.Second

// city has pods of the node and of another one, in two namespaces.
type city struct {
	*testing.T
	*servicetest.Network
	hosts      []*servicetest.Host
	peers      []policy.Peer
	policies   *localcache.Map[*networkingv1.NetworkPolicy]
	pods       *localcache.Map[*corev1.Pod]
	namespaces *localcache.Map[*corev1.Namespace]
	sent       int // by after
	overrun    func(p *networkingv1.NetworkPolicy, reason string)
	// connections is Config.Connections.
	connections int
}

// The ports at which every pod listens. The first is "http" in pods of namespace a and the second in others.
var ports = []struct {
	network  string
	protocol ruleset.Protocol
	number   uint16
}{{"tcp", ruleset.TCP, 8080}, {"tcp", ruleset.TCP, 8081}, {"udp", ruleset.UDP, 8080}}

func newCity(t *testing.T) *city {
	c := &city{T: t, Network: servicetest.NewNetwork(t), policies: localcache.NewMap[*networkingv1.NetworkPolicy](),
		pods: localcache.NewMap[*corev1.Pod](), namespaces: localcache.NewMap[*corev1.Namespace]()}
	for _, name := range []string{"a", "b"} {
		c.namespaces.Put(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"team": name}}})
	}
	for i := range 6 {
		name := fmt.Sprint("pod", i)
		host, node := c.Pod, "node"
		if i == 5 {
			host, node = c.Remote, "other"
		}
		labels := map[string]string{"app": fmt.Sprint("app", i/2), "pod": name}
		if node == "other" {
			labels["remote"] = "yes"
		}
		c.add(host(name), []string{"a", "b"}[i%2], node, labels)
	}
	c.hosts, c.peers = append(c.hosts, c.Outside), append(c.peers, policy.Peer{Addr: c.Outside.IP4})
	for _, h := range c.hosts {
		for _, p := range ports {
			h.Serve(p.network, int(p.number))
		}
	}
	return c
}

func (c *city) add(h *servicetest.Host, namespace, node string, labels map[string]string) {
	http := int32(8080)
	if namespace == "b" {
		http = 8081
	}
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: h.Name, Labels: labels},
		Spec:       corev1.PodSpec{NodeName: node, Containers: []corev1.Container{{Ports: []corev1.ContainerPort{{Name: "http", ContainerPort: http, Protocol: corev1.ProtocolTCP}}}}},
		Status:     corev1.PodStatus{PodIPs: []corev1.PodIP{{IP: h.IP4.String()}, {IP: h.IP6.String()}}},
	}
	c.pods.Put(pod)
	in, _ := c.namespaces.Get(namespace)
	c.hosts, c.peers = append(c.hosts, h), append(c.peers, policy.Peer{Addr: h.IP4, Pod: pod, Namespace: in})
}

// start starts an enforcer, which stop ends as a crash does: the rules stay.
func (c *city) start() (e *policy.Enforcer, stop func()) {
	e, err := policy.New(policy.Config{Node: "node", Policies: c.policies, Pods: c.pods, Namespaces: c.namespaces, Bridges: []string{servicetest.Bridge}, Overrun: c.overrun, Connections: c.connections,
		Namespace: c.Node.Path, MinPeriod: time.Millisecond, CheckPeriod: 20 * time.Millisecond, Log: testr.New(c.T)})
	if err != nil {
		c.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1) // one answer
	go func() { done <- e.Run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			c.Error(err)
		}
	})
	c.Cleanup(stop)
	<-e.Ready()
	return e, stop
}

// matrix asks every port of every pod from every pod until all is as the definition says, and returns
// what is not in the end.
func (c *city) matrix(policies []*networkingv1.NetworkPolicy) []string {
	var mu sync.Mutex
	var all []string
	var wg sync.WaitGroup
	slots := make(chan struct{}, 64) // questions at a time
	for i := range c.hosts {
		for j := range c.hosts {
			for _, p := range ports {
				for _, v6 := range []bool{false, true} {
					wg.Go(func() {
						problem := "never asked"
						for deadline := time.Now().Add(patience); problem != "" && time.Now().Before(deadline); {
							slots <- struct{}{}
							problem = c.ask(policies, i, j, p.network, p.protocol, p.number, v6)
							<-slots
						}
						if problem != "" {
							mu.Lock()
							all = append(all, problem)
							mu.Unlock()
						}
					})
				}
			}
		}
	}
	wg.Wait()
	return all
}

// ask returns what is not as the definition says. What must not be answered gets a tenth of a second, and
// what must be, a second.
func (c *city) ask(policies []*networkingv1.NetworkPolicy, i, j int, network string, protocol ruleset.Protocol, port uint16, v6 bool) string {
	from, to := c.peers[i], c.peers[j]
	if v6 {
		from.Addr, to.Addr = c.hosts[i].IP6, c.hosts[j].IP6
	}
	want := policy.Allowed(policies, from, to, protocol, port)
	timeout := 100 * time.Millisecond
	if want {
		timeout = time.Second
	}
	_, err := c.hosts[i].AskWithin(network, netip.AddrPortFrom(to.Addr, port).String(), timeout)
	if (err == nil) != want {
		return fmt.Sprintf("%s to %s, %s %d: allowed is %v, error %v", c.hosts[i].Name, c.hosts[j].Name, network, port, want, err)
	}
	return ""
}

// TestMatrix compares the packets that pass with the definition, for random policies.
func TestMatrix(t *testing.T) {
	t.Parallel()
	c := newCity(t)
	c.start()
	for seed := range uint64(8) {
		policies := random(rand.New(rand.NewPCG(seed, 5)))
		c.policies.Replace(policies...)
		if problems := c.matrix(policies); len(problems) > 0 {
			t.Fatalf("seed %d: %d of the matrix, such as %s; rules\n%s", seed, len(problems), problems[0], c.Node.Run("nft", "list", "ruleset"))
		}
	}
}

// TestChangesOfPods: a pod that changes its labels, and a new pod, are subject to policies.
func TestChangesOfPods(t *testing.T) {
	t.Parallel()
	c := newCity(t)
	policies := []*networkingv1.NetworkPolicy{{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "only"},
		Spec: networkingv1.NetworkPolicySpec{Ingress: []networkingv1.NetworkPolicyIngressRule{{
			From: []networkingv1.NetworkPolicyPeer{{PodSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"friend": "yes"}}}}}}},
	}}
	c.policies.Replace(policies...)
	c.start()
	expect := func(from, to int, want bool) {
		t.Helper()
		for deadline := time.Now().Add(patience); ; {
			_, err := c.hosts[from].AskWithin("tcp", netip.AddrPortFrom(c.hosts[to].IP4, 8080).String(), 200*time.Millisecond)
			if (err == nil) == want {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("%s to %s: want allowed %v, error %v", c.hosts[from].Name, c.hosts[to].Name, want, err)
			}
		}
	}
	expect(2, 0, false)
	pod := c.peers[2].Pod.DeepCopy()
	pod.Labels["friend"] = "yes"
	c.pods.Put(pod)
	expect(2, 0, true)
	c.pods.Put(c.peers[2].Pod)
	expect(2, 0, false)
	// By hand.
	c.Node.Run("nft", "flush", "ruleset")
	expect(2, 0, false)
	ended := c.peers[0].Pod.DeepCopy()
	ended.Status.Phase = corev1.PodSucceeded // its address may be another pod's by now, which is closed until it is known
	c.pods.Put(ended)
	c.policies.Delete("a/only")
	expect(2, 0, false)
	c.pods.Put(c.peers[0].Pod)
	expect(3, 0, true)
}

// TestLargest: a policy with 10,000 blocks, and names of the greatest length, are rules like all others, which are
// repaired and replaced.
func TestLargest(t *testing.T) {
	t.Parallel()
	c := newCity(t)
	long := strings.Repeat("n", 253)
	p := &networkingv1.NetworkPolicy{ObjectMeta: metav1.ObjectMeta{Namespace: strings.Repeat("s", 63), Name: long}}
	var rule networkingv1.NetworkPolicyIngressRule
	for i := range 10_000 {
		rule.From = append(rule.From, networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: fmt.Sprintf("172.%d.%d.0/25", i/250, i%250)}})
	}
	rule.Ports = []networkingv1.NetworkPolicyPort{{Port: new(intstr.FromInt32(8080))}}
	p.Spec.Ingress = []networkingv1.NetworkPolicyIngressRule{rule}
	pod := c.peers[0].Pod.DeepCopy()
	pod.Namespace, pod.Name = p.Namespace, long
	c.pods.Delete(localcache.KeyOf(c.peers[0].Pod))
	c.pods.Put(pod)
	c.policies.Put(p)
	c.start()
	expect := func(want bool) {
		t.Helper()
		for deadline := time.Now().Add(patience); ; {
			_, err := c.hosts[1].AskWithin("tcp", netip.AddrPortFrom(c.hosts[0].IP4, 8080).String(), 200*time.Millisecond)
			if (err == nil) == want {
				return
			}
			if time.Now().After(deadline) {
				t.Fatalf("want allowed %v, error %v", want, err)
			}
		}
	}
	expect(false)
	open := p.DeepCopy()
	open.Spec.Ingress[0].From[5000].IPBlock.CIDR = "10.65.0.0/16"
	c.policies.Put(open)
	expect(true)
	c.policies.Put(p)
	expect(false)
	c.policies.Put(open)
	expect(true)
	c.Node.Run("nft", "flush", "ruleset")
	expect(true)
	c.policies.Put(p)
	expect(false)
}
