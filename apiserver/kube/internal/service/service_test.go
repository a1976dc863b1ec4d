package service_test

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver/kube/internal/service"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// newService returns a service with one port, complete but for what is allocated.
func newService(kind corev1.ServiceType) *corev1.Service {
	s := &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web"},
		Spec:       corev1.ServiceSpec{Type: kind, Ports: []corev1.ServicePort{{Port: 80}}},
	}
	service.Resource(service.Config{}).Strategy.Default(s)
	return s
}

// memory holds the taken values of a cluster, and its ServiceCIDRs.
type memory struct {
	taken  map[string]bool
	ranges []runtime.Object
	// unseen is set if the cache does not know what is taken. takes counts the attempts to take.
	unseen bool
	takes  int
}

func (m *memory) Take(name string) (bool, error) {
	m.takes++
	free := !m.taken[name]
	m.taken[name] = true
	return free, nil
}

func (m *memory) Taken(bool) (func(string) bool, error) {
	return func(name string) bool { return m.taken[name] && !m.unseen }, nil
}

func (m *memory) All(schema.GroupResource) ([]runtime.Object, error) { return m.ranges, nil }

func Example() {
	r := service.Resource(service.Config{CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/30")}})
	s := newService(corev1.ServiceTypeClusterIP)
	err := r.Allocation.Fill(s, nil, &memory{taken: map[string]bool{"ip/10.0.0.1": true}})
	fmt.Println(s.Spec.ClusterIP, s.Spec.ClusterIPs, s.Spec.IPFamilies, err)
	fmt.Println(r.Allocation.Names(s))
	// Output:
	// 10.0.0.2 [10.0.0.2] [IPv4] <nil>
	// [ip/10.0.0.2]
}

// TestFull takes everything from small ranges, and then one more. Nothing is taken twice, with and
// without a cache that knows what is taken. With one, a used-up range costs no attempt.
func TestFull(t *testing.T) {
	r := service.Resource(service.Config{
		CIDRs:     []netip.Prefix{netip.MustParsePrefix("10.0.0.0/29")},
		NodePorts: service.PortRange{First: 30000, Last: 30003},
	})
	for _, unseen := range []bool{true, false} {
		m := &memory{taken: map[string]bool{}, unseen: unseen}
		fill := func(kind corev1.ServiceType) error { return r.Allocation.Fill(newService(kind), nil, m) }
		for i := range 4 {
			if err := fill(corev1.ServiceTypeNodePort); err != nil {
				t.Fatalf("service %d: %v", i, err)
			}
		}
		if err := fill(corev1.ServiceTypeNodePort); err == nil || !strings.Contains(err.Error(), "range is full") {
			t.Errorf("a fifth node port of four: %v", err)
		}
		if err := fill(corev1.ServiceTypeClusterIP); err != nil { // the last one of six addresses
			t.Error(err)
		}
		m.takes = 0
		err := fill(corev1.ServiceTypeClusterIP)
		if err == nil || !strings.Contains(err.Error(), `failed to allocate a serviceIP for Service "web": range is full`) {
			t.Errorf("a seventh address of six: %v", err)
		}
		if m.takes > 0 != unseen {
			t.Errorf("%d attempts", m.takes)
		}
	}
}

func serviceCIDR(name string, ready metav1.ConditionStatus, cidrs ...string) *networkingv1.ServiceCIDR {
	r := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: cidrs}}
	if ready != "" {
		r.Status.Conditions = []metav1.Condition{{Type: networkingv1.ServiceCIDRConditionReady, Status: ready}}
	}
	return r
}

// TestServiceCIDRs: addresses come from the ServiceCIDRs that are ready, and from the configured
// range if no ServiceCIDR kubernetes has taken its place.
func TestServiceCIDRs(t *testing.T) {
	r := service.Resource(service.Config{CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/30")}})
	deleted := serviceCIDR("deleted", "", "10.0.4.0/30")
	deleted.DeletionTimestamp = &metav1.Time{}
	more := []runtime.Object{
		deleted,
		serviceCIDR("ready", metav1.ConditionTrue, "10.0.1.0/30", "fd00::/126"),
		serviceCIDR("terminating", metav1.ConditionFalse, "10.0.2.0/30"),
		serviceCIDR("unattended", "", "10.0.3.0/30"),
	}
	for name, test := range map[string]struct {
		first string // the ServiceCIDR kubernetes
		ready metav1.ConditionStatus
		want  []string
	}{
		"without a default": {"", "", []string{"10.0.0.1", "10.0.0.2", "10.0.1.1", "10.0.1.2", "10.0.3.1", "10.0.3.2"}},
		"another default":   {"10.0.5.0/30", metav1.ConditionTrue, []string{"10.0.5.1", "10.0.5.2", "10.0.1.1", "10.0.1.2", "10.0.3.1", "10.0.3.2"}},
		"default not ready": {"10.0.0.0/30", metav1.ConditionFalse, []string{"10.0.1.1", "10.0.1.2", "10.0.3.1", "10.0.3.2"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := &memory{taken: map[string]bool{}, ranges: more}
			if test.first != "" {
				m.ranges = append(more[:len(more):len(more)], serviceCIDR("kubernetes", test.ready, test.first))
			}
			var got []string
			for range 7 {
				s := newService(corev1.ServiceTypeClusterIP)
				if err := r.Allocation.Fill(s, nil, m); err != nil {
					break
				}
				got = append(got, s.Spec.ClusterIP)
			}
			for i := 0; i+1 < len(got); i += 2 { // an order of two is a matter of chance
				slices.Sort(got[i : i+2])
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("got %v, want %v", got, test.want)
			}
			s := newService(corev1.ServiceTypeClusterIP)
			s.Spec.ClusterIP, s.Spec.ClusterIPs = "10.0.2.1", []string{"10.0.2.1"}
			err := r.Allocation.Fill(s, nil, m)
			if err == nil || !strings.Contains(err.Error(), "failed to allocate IP 10.0.2.1: the provided network does not match the current range") {
				t.Errorf("an address of a range that is going: %v", err)
			}
			if err := r.Allocation.Fill(s.DeepCopy(), s, m); err != nil {
				t.Errorf("a service that has such an address cannot be changed: %v", err)
			}
		})
	}
}

// TestBands: addresses come from the upper band of a range first, as in Kubernetes, and an address
// at either end that no host has is refused.
func TestBands(t *testing.T) {
	for _, test := range []struct {
		cidr, low, refused string // low is the last address of the lower band
	}{
		{"10.0.0.0/16", "10.0.1.0", "10.0.255.255"},
		{"10.0.0.0/24", "10.0.0.16", "10.0.0.0"},
		{"10.0.0.0/27", "10.0.0.16", "10.0.0.31"},
		{"10.0.0.0/28", "10.0.0.0", "10.0.0.15"},
		{"fd00::/108", "fd00::100", "fd00::"},
	} {
		r := service.Resource(service.Config{CIDRs: []netip.Prefix{netip.MustParsePrefix(test.cidr)}})
		m := &memory{taken: map[string]bool{}}
		for range 14 {
			s := newService(corev1.ServiceTypeClusterIP)
			if err := r.Allocation.Fill(s, nil, m); err != nil {
				t.Fatalf("%s: Fill: %v", test.cidr, err)
			}
			if ip := netip.MustParseAddr(s.Spec.ClusterIP); !netip.MustParseAddr(test.low).Less(ip) {
				t.Errorf("%s: %s is in the lower band", test.cidr, ip)
			}
		}
		s := newService(corev1.ServiceTypeClusterIP)
		s.Spec.ClusterIP, s.Spec.ClusterIPs = test.refused, []string{test.refused}
		if err := r.Allocation.Fill(s, nil, m); err == nil {
			t.Errorf("%s: a service has %s", test.cidr, test.refused)
		}
	}
}

// TestCanonicalNames: another spelling of an address is the same address.
func TestCanonicalNames(t *testing.T) {
	s := newService(corev1.ServiceTypeClusterIP)
	s.Spec.ClusterIPs = []string{"FD00:0::1"}
	if names := service.Resource(service.Config{}).Allocation.Names(s); !slices.Equal(names, []string{"ip/fd00::1"}) {
		t.Errorf("names %v", names)
	}
}
