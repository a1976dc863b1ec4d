package service_test

import (
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver/kube/internal/service"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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

func Example() {
	r := service.Resource(service.Config{CIDRs: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/30")}})
	s := newService(corev1.ServiceTypeClusterIP)
	taken := map[string]bool{"ip/10.0.0.1": true}
	err := r.Allocation.Fill(s, nil, func(name string) (bool, error) { return !taken[name], nil })
	fmt.Println(s.Spec.ClusterIP, s.Spec.ClusterIPs, s.Spec.IPFamilies, err)
	fmt.Println(r.Allocation.Names(s))
	// Output:
	// 10.0.0.2 [10.0.0.2] [IPv4] <nil>
	// [ip/10.0.0.2]
}

// TestFull takes everything from small ranges, and then one more. Nothing is taken twice.
func TestFull(t *testing.T) {
	r := service.Resource(service.Config{
		CIDRs:     []netip.Prefix{netip.MustParsePrefix("10.0.0.0/29")},
		NodePorts: service.PortRange{First: 30000, Last: 30003},
	})
	taken := map[string]bool{}
	fill := func(kind corev1.ServiceType) error {
		s := newService(kind)
		return r.Allocation.Fill(s, nil, func(name string) (bool, error) {
			free := !taken[name]
			taken[name] = true
			return free, nil
		})
	}
	for i := range 4 {
		if err := fill(corev1.ServiceTypeNodePort); err != nil {
			t.Fatalf("service %d: %v", i, err)
		}
	}
	if err := fill(corev1.ServiceTypeNodePort); err == nil || !strings.Contains(err.Error(), "range is full") {
		t.Errorf("a fifth node port of four: %v", err)
	}
	for range 8 { // the last ones of six addresses
		if err := fill(corev1.ServiceTypeClusterIP); err != nil {
			if !strings.Contains(err.Error(), "range is full") {
				t.Error(err)
			}
			return
		}
	}
	t.Error("a range of six addresses is never full")
}
