package proxy_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/service/proxy"
	"github.com/planekit/planekit/service/ruleset"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// patience bounds what must come.
const patience = 30 * time.Second

// modelRank orders services as the proxy does: by age.
func modelRank(s *corev1.Service) string { return fmt.Sprintf("%020d", s.CreationTimestamp.Unix()) }

func randomService(r *rand.Rand, i int) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("s", i), CreationTimestamp: metav1.Unix(int64(i), 0)},
		Spec: corev1.ServiceSpec{
			Type:       []corev1.ServiceType{corev1.ServiceTypeClusterIP, corev1.ServiceTypeNodePort, corev1.ServiceTypeLoadBalancer, corev1.ServiceTypeExternalName}[r.IntN(4)],
			ClusterIPs: [][]string{{fmt.Sprint("10.96.0.", i)}, {fmt.Sprint("10.96.0.", i), fmt.Sprint("fd00::", i)}, {corev1.ClusterIPNone}}[r.IntN(3)],
		},
	}
	for port := range 1 + r.IntN(3) {
		p := corev1.ServicePort{Name: fmt.Sprint("p", port), Port: int32(80 + port), Protocol: []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP}[r.IntN(3)]}
		if s.Spec.Type == corev1.ServiceTypeNodePort {
			p.NodePort = int32(30000 + i*3 + port)
		}
		s.Spec.Ports = append(s.Spec.Ports, p)
	}
	if r.IntN(2) == 0 {
		s.Spec.SessionAffinity = corev1.ServiceAffinityClientIP
	}
	if r.IntN(2) == 0 {
		s.Spec.ExternalIPs = []string{fmt.Sprint("192.0.2.", r.IntN(3))} // which services want at the same time
	}
	if r.IntN(2) == 0 {
		s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
	}
	if r.IntN(2) == 0 {
		s.Spec.InternalTrafficPolicy = new(corev1.ServiceInternalTrafficPolicyLocal)
	}
	if s.Spec.Type == corev1.ServiceTypeLoadBalancer {
		s.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: fmt.Sprint("198.51.100.", r.IntN(3))}}
		s.Spec.LoadBalancerSourceRanges = [][]string{nil, {"10.0.0.0/8"}, {"0.0.0.0/0"}}[r.IntN(3)]
	}
	return s
}

func randomSlices(r *rand.Rand, i int) []*discoveryv1.EndpointSlice {
	var all []*discoveryv1.EndpointSlice
	for n := range r.IntN(3) {
		s := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("s", i, "-", n)}, AddressType: discoveryv1.AddressTypeIPv4}
		for port := range 3 {
			for _, protocol := range []corev1.Protocol{corev1.ProtocolTCP, corev1.ProtocolUDP, corev1.ProtocolSCTP} {
				s.Ports = append(s.Ports, discoveryv1.EndpointPort{Name: new(fmt.Sprint("p", port)), Port: new(int32(8080 + port)), Protocol: &protocol})
			}
		}
		for range r.IntN(4) {
			s.Endpoints = append(s.Endpoints, discoveryv1.Endpoint{
				Addresses: []string{fmt.Sprint("10.244.0.", r.IntN(8))}, NodeName: new([]string{"node", "other"}[r.IntN(2)]),
				Conditions: discoveryv1.EndpointConditions{Ready: new(r.IntN(2) == 0), Serving: new(r.IntN(2) == 0), Terminating: new(r.IntN(2) == 0)},
			})
		}
		all = append(all, s)
	}
	return all
}

// The table after random changes is that of a proxy that starts with the same services, and each change
// makes one table of the other.
func TestIncrementalIsFromScratch(t *testing.T) {
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 1))
		site := proxy.Site{Node: "node", MarkBit: 14}
		model := ruleset.NewModel()
		model.Put("", "", site.Base(), &ruleset.Change{})
		services, slices := map[int]*corev1.Service{}, map[int][]*discoveryv1.EndpointSlice{}
		for step := range 60 {
			before := clone(model.Table())
			var change ruleset.Change
			for range 1 + r.IntN(4) { // several changes of one transaction
				i := r.IntN(6)
				key := fmt.Sprint("default/s", i)
				switch services[i] = randomService(r, i); r.IntN(4) {
				case 0:
					delete(services, i)
					model.Put(key, "", ruleset.Fragment{}, &change)
				default:
					slices[i] = randomSlices(r, i)
					model.Put(key, modelRank(services[i]), site.Fragment(services[i], slices[i]), &change)
				}
			}
			scratch := ruleset.NewModel()
			scratch.Put("", "", site.Base(), &ruleset.Change{})
			for _, i := range r.Perm(6) {
				if s := services[i]; s != nil {
					scratch.Put(fmt.Sprint("default/s", i), modelRank(s), site.Fragment(s, slices[i]), &ruleset.Change{})
				}
			}
			if have, want := model.Table().String(), scratch.Table().String(); have != want {
				t.Fatalf("seed %d, step %d: the table is\n%s\nwant\n%s", seed, step, have, want)
			}
			if have, want := change.Apply(before).String(), model.Table().String(); have != want {
				t.Fatalf("seed %d, step %d: the change leads to\n%s\nwant\n%s", seed, step, have, want)
			}
			if have := ruleset.Diff(before, model.Table()).Size(); have != change.Size() {
				t.Fatalf("seed %d, step %d: the change has %d parts, want %d", seed, step, change.Size(), have)
			}
		}
	}
}

func clone(t ruleset.Table) ruleset.Table { return (&ruleset.Change{}).Apply(t) }

func TestOneServiceAlone(t *testing.T) {
	r := rand.New(rand.NewPCG(7, 7))
	site := proxy.Site{Node: "node"}
	model := ruleset.NewModel()
	for i := range 200 {
		s := randomService(r, i)
		s.Spec.ExternalIPs, s.Status.LoadBalancer.Ingress = nil, nil
		model.Put(fmt.Sprint("default/s", i), modelRank(s), site.Fragment(s, randomSlices(r, i)), &ruleset.Change{})
	}
	s := randomService(r, 100)
	var change ruleset.Change
	model.Put("default/s100", modelRank(s), site.Fragment(s, randomSlices(r, 100)), &change)
	if n := change.Size(); n > 60 {
		t.Errorf("the change of one service has %d parts", n)
	}
}

// TestEndpointsWithoutRules: a service with up to 32 endpoints has no chain, however many they are. One
// with more, or with another address, has its own.
func TestEndpointsWithoutRules(t *testing.T) {
	site := proxy.Site{Node: "node"}
	for _, test := range []struct {
		endpoints int
		external  []string
		chains    int
	}{{0, nil, 0}, {1, nil, 0}, {32, nil, 0}, {33, nil, 1}, {1, []string{"192.0.2.1"}, 2}, {0, []string{"192.0.2.1"}, 0}} {
		s := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"}, Spec: corev1.ServiceSpec{
			ClusterIP: "10.96.0.1", ExternalIPs: test.external, Ports: []corev1.ServicePort{{Port: 80}}}}
		slice := &discoveryv1.EndpointSlice{AddressType: discoveryv1.AddressTypeIPv4, Ports: []discoveryv1.EndpointPort{{Name: new(""), Port: new(int32(8080))}}}
		for i := range test.endpoints {
			slice.Endpoints = append(slice.Endpoints, discoveryv1.Endpoint{Addresses: []string{fmt.Sprint("10.244.0.", i+1)}})
		}
		f := site.Fragment(s, []*discoveryv1.EndpointSlice{slice})
		if len(f.Chains) != test.chains {
			t.Errorf("%d endpoints and the addresses %v: %d chains, want %d", test.endpoints, test.external, len(f.Chains), test.chains)
		}
		for place, v := range f.Elements {
			if chain, ok := strings.CutPrefix(string(v), "goto "); ok && len(f.Chains[chain].Rules)+len(site.Base().Chains[chain].Rules) == 0 {
				t.Errorf("%d endpoints: an element of %s leads to %q, which there is not", test.endpoints, place.Set, chain)
			}
		}
	}
}

func TestConfig(t *testing.T) {
	for _, c := range []proxy.Config{{}, {Node: "a b"}, {Node: "node"}} {
		if _, err := proxy.New(c); err == nil {
			t.Errorf("no error about %+v", c)
		}
	}
}
