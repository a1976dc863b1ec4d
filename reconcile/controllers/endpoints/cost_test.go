//lint:file-ignore SA1019 users still make Endpoints by hand

package endpoints

import (
	"fmt"
	"testing"
	"time"

	"github.com/planekit/planekit/internal/used"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// TestCostOfManyPorts: a service with 5,000 ports and 200 pods, of which some have as many named ports, and Endpoints
// with 5,000 addresses and ports, are planned in time that grows with the objects and what is written.
func TestCostOfManyPorts(t *testing.T) {
	const n = 5000
	numbered, named := webService(), webService()
	numbered.Spec.Ports, named.Spec.Ports = nil, nil
	pods, wide := webPods(upTo(200)...), webPods(upTo(5)...)
	subset := corev1.EndpointSubset{}
	var ports []corev1.ContainerPort
	for i := range n {
		port := corev1.ServicePort{Name: fmt.Sprint("p", i), Port: int32(1 + i), Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromInt32(int32(1 + i))}
		numbered.Spec.Ports = append(numbered.Spec.Ports, port)
		port.TargetPort = intstr.FromString(fmt.Sprint("n", n-i))
		named.Spec.Ports = append(named.Spec.Ports, port)
		ports = append(ports, corev1.ContainerPort{Name: fmt.Sprint("n", 1+i), ContainerPort: int32(1 + i), Protocol: corev1.ProtocolTCP})
		subset.Ports = append(subset.Ports, corev1.EndpointPort{Name: fmt.Sprint("p", i), Port: int32(1 + i), Protocol: corev1.ProtocolTCP})
		subset.Addresses = append(subset.Addresses, corev1.EndpointAddress{IP: fmt.Sprintf("10.2.%d.%d", i/250, i%250)})
	}
	for _, pod := range wide {
		pod.Spec.Containers[0].Ports = ports
	}
	zone := func(string) (string, bool) { return "", true }
	for name, plan := range map[string]func() (endpoints, ports int){
		"slices of numbered ports": func() (int, int) {
			p := planEndpointSlices(slicePlanner{service: numbered, zone: zone, max: 100}, pods, nil)
			return len(p.create) * len(p.create[0].Endpoints), len(p.create[0].Ports)
		},
		"slices of named ports": func() (int, int) {
			p := planEndpointSlices(slicePlanner{service: named, zone: zone, max: 100}, wide, nil)
			return len(p.create) * len(p.create[0].Endpoints) * 40, len(p.create[0].Ports)
		},
		"endpoints of numbered ports": func() (int, int) {
			e := planEndpoints(numbered, pods, nil)
			return len(e.Subsets[0].Addresses), len(e.Subsets[0].Ports)
		},
		"endpoints of named ports": func() (int, int) {
			e := planEndpoints(named, wide, nil)
			return len(e.Subsets[0].Addresses) * 40, len(e.Subsets[0].Ports)
		},
		"mirrored endpoints": func() (int, int) {
			p := planMirror(&corev1.Endpoints{Subsets: []corev1.EndpointSubset{subset}}, nil, 200)
			return len(p.create) * len(p.create[0].Endpoints), len(p.create[0].Ports)
		},
	} {
		before := used.Processor()
		endpoints, ports := plan()
		took := used.Processor() - before
		t.Logf("%s: %v", name, took)
		if endpoints != 200 || ports != n || took > 3*time.Second {
			t.Errorf("%s: %d endpoints (of 200) with %d ports (of %d) after %v, want all in less than 3s", name, endpoints, ports, n, took)
		}
	}
}

// TestPodsWithOtherPorts: 2,000 pods with one port of their own are found in time that grows with what is found, also for
// a service with 5,000 ports; beyond 200,000 ports in all, pods are left out.
func TestPodsWithOtherPorts(t *testing.T) {
	service := webService()
	service.Spec.Ports = nil
	for i := range 5000 {
		service.Spec.Ports = append(service.Spec.Ports, corev1.ServicePort{Name: fmt.Sprint("p", i), Port: int32(1 + i), Protocol: corev1.ProtocolTCP, TargetPort: intstr.FromString(fmt.Sprint("n", i))})
	}
	pods := webPods(upTo(2000)...)
	for i, pod := range pods {
		pod.Spec.Containers[0].Ports = []corev1.ContainerPort{{Name: fmt.Sprint("n", i), ContainerPort: 80, Protocol: corev1.ProtocolTCP}}
	}
	zone := func(string) (string, bool) { return "", true }
	const limit = 2 * time.Second * used.Slowdown
	check := func(what string, wantSlices, wantCrowded, wantSubsets int, wantCut bool) {
		t.Helper()
		before := used.Processor()
		slices := planEndpointSlices(slicePlanner{service: service, zone: zone, max: 100}, pods, nil)
		endpoints := planEndpoints(service, pods[:1000], nil)
		took := used.Processor() - before
		cut := endpoints.Annotations[corev1.EndpointsOverCapacity] == truncated
		t.Logf("%s: %v", what, took)
		if len(slices.create) != wantSlices || slices.crowded != wantCrowded || len(endpoints.Subsets) != wantSubsets || cut != wantCut || took > limit {
			t.Errorf("%s: %d slices, %d endpoints left out, Endpoints with %d subsets, over capacity: %t, after %v; want %d, %d, %d, %t in less than %v",
				what, len(slices.create), slices.crowded, len(endpoints.Subsets), cut, took, wantSlices, wantCrowded, wantSubsets, wantCut, limit)
		}
	}
	check("named ports", 2000, 0, 1000, false)
	for i := range 4000 { // and all pods have these
		service.Spec.Ports[i+1000].TargetPort = intstr.FromInt32(int32(1 + i))
	}
	check("numbered ports", 49, 1951, 50, true)
}

// TestManyDifferentPorts: Endpoints whose ports all have other addresses are mirrored up to a limit.
func TestManyDifferentPorts(t *testing.T) {
	var subsets []corev1.EndpointSubset
	everywhere := corev1.EndpointSubset{}
	for i := range 3000 {
		port := []corev1.EndpointPort{{Name: fmt.Sprint("p", i), Port: int32(1 + i), Protocol: corev1.ProtocolTCP}}
		everywhere.Ports = append(everywhere.Ports, port...)
		address := []corev1.EndpointAddress{{IP: fmt.Sprintf("10.2.%d.%d", i/250, i%250)}}
		everywhere.Addresses = append(everywhere.Addresses, address...)
		address[0].IP = fmt.Sprintf("10.3.%d.%d", i/250, i%250)
		subsets = append(subsets, corev1.EndpointSubset{Ports: port, Addresses: address})
	}
	before := used.Processor()
	repacked := repackSubsets(append(subsets, everywhere))
	took := used.Processor() - before
	addresses := 0
	for i := range repacked {
		addresses += len(repacked[i].Addresses)
	}
	t.Logf("%d subsets with %d addresses after %v", len(repacked), addresses, took)
	const limit = 4 * time.Second * used.Slowdown // half of it sorts by the hashes of Kubernetes
	if most := maxRepacked + 3001; addresses > most || addresses < maxRepacked || took > limit {
		t.Errorf("repackSubsets() = %d addresses after %v, want %d to %d in less than %v", addresses, took, maxRepacked, most, limit)
	}
}
