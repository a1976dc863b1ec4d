package controllers_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/serviceaddress"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func addressScenarios() []scenario {
	return []scenario{
		{name: "service ranges", set: rangesGo},
		{name: "service addresses", set: addressesAreRepaired},
	}
}

// addressWorld is an API with services, their addresses and the ranges of these.
type addressWorld struct {
	*api
	services  *collection[*corev1.Service]
	addresses *collection[*networkingv1.IPAddress]
	ranges    *collection[*networkingv1.ServiceCIDR]
}

func newAddressWorld() *addressWorld {
	a := &api{}
	return &addressWorld{
		api:       a,
		services:  newCollection(a, "Service", func() *corev1.Service { return &corev1.Service{} }),
		addresses: newCollection(a, "IPAddress", func() *networkingv1.IPAddress { return &networkingv1.IPAddress{} }),
		ranges:    newCollection(a, "ServiceCIDR", func() *networkingv1.ServiceCIDR { return &networkingv1.ServiceCIDR{} }),
	}
}

func (w *addressWorld) addService(name string, ips ...string) {
	put(w.services, &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeClusterIP, ClusterIPs: ips},
	})
}

// addAddress adds an address as the API server does.
func (w *addressWorld) addAddress(ip, service string) {
	put(w.addresses, &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: ip, CreationTimestamp: metav1.Now(), Labels: map[string]string{
			networkingv1.LabelManagedBy: "ipallocator.k8s.io", networkingv1.LabelIPAddressFamily: "IPv4"}},
		Spec: networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: "default", Name: service}},
	})
}

// addOwn adds an address of a client that is no service.
func (w *addressWorld) addOwn(ip string) {
	put(w.addresses, &networkingv1.IPAddress{
		ObjectMeta: metav1.ObjectMeta{Name: ip},
		Spec:       networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Group: "example.com", Resource: "gateways", Name: "g"}},
	})
}

func (w *addressWorld) addRange(name string, cidrs ...string) {
	put(w.ranges, &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: cidrs}})
}

// rangesGo deletes a range inside another, which goes, and then the other, which stays for its
// address.
func rangesGo(t *testing.T, _ context.Context, _ *rand.Rand) stage {
	w := newAddressWorld()
	w.addRange("outer", "10.0.0.0/24", "fd00::/112")
	w.addRange("inner", "10.0.0.16/28")
	w.addAddress("10.0.0.17", "a")
	w.addOwn("10.0.0.18")
	w.ranges.check = func(old, new *networkingv1.ServiceCIDR) {
		if new == nil && old.Name == "outer" && w.addresses.objects["10.0.0.17"] != nil {
			t.Error("the range of an address is gone")
		}
	}
	ready := func(name string) metav1.Condition {
		r := w.ranges.objects[name]
		if r == nil || len(r.Finalizers) != 1 {
			return metav1.Condition{}
		}
		if c := meta.FindStatusCondition(r.Status.Conditions, "Ready"); c != nil {
			return *c
		}
		return metav1.Condition{}
	}
	await := func(name string, status metav1.ConditionStatus) {
		for {
			w.mu.Lock()
			now := ready(name).Status
			w.mu.Unlock()
			if now == status {
				return
			}
			time.Sleep(time.Second)
		}
	}
	st := single(t, w.api, func(ctx context.Context, l lag) (*serviceaddress.Ranges, error) {
		return serviceaddress.NewRanges(serviceaddress.RangesConfig{
			ServiceCIDRs: follow(ctx, w.ranges, l), IPAddresses: follow(ctx, w.addresses, l),
			ListAddresses: func(context.Context) ([]*networkingv1.IPAddress, error) { return w.addresses.list(), nil },
			Writer:        w.ranges, StatusWriter: w.ranges,
		})
	})
	st.steps = []func(){
		func() {
			await("inner", metav1.ConditionTrue)
			removeOutside(t, w.ranges, "", "inner")
			await("outer", metav1.ConditionTrue)
			removeOutside(t, w.ranges, "", "outer")
			w.addRange("next", "10.0.1.0/24")
		},
		func() {
			await("outer", metav1.ConditionFalse)
			removeOutside(t, w.addresses, "", "10.0.0.17")
		},
	}
	st.wanted = func() {
		if all := w.ranges.list(); len(all) != 1 || all[0].Name != "next" || ready("next").Message != "Kubernetes Service CIDR is ready" {
			t.Errorf("ranges %v", all)
		}
	}
	return st
}

// addressesAreRepaired deletes the address of a service, and leaves addresses without a service, and
// one that is marked as a service's and is not. The range of an address comes late.
func addressesAreRepaired(t *testing.T, _ context.Context, _ *rand.Rand) stage {
	w := newAddressWorld()
	w.addRange("near", "10.0.0.0/28")
	w.addService("far", "10.0.0.17")
	w.addService("a", "10.0.0.1")
	w.addService("old", "10.0.0.2")
	w.addService("taken", "10.0.0.5")
	w.addAddress("10.0.0.1", "a")
	w.addAddress("10.0.0.3", "gone")
	w.addAddress("10.0.0.4", "a")
	w.addOwn("10.0.0.5")
	w.addOwn("10.0.0.6")
	st := stage{
		api: w.api,
		run: func(l lag) *process {
			return launch(t, func(ctx context.Context) []controllers.Runner {
				services := follow(ctx, w.services, l)
				return []controllers.Runner{must[*serviceaddress.Repair](t)(serviceaddress.NewRepair(serviceaddress.RepairConfig{
					Services: services, ServicesByAddress: localcache.Scan(services, serviceaddress.ByAddress),
					IPAddresses: follow(ctx, w.addresses, l), ServiceCIDRs: follow(ctx, w.ranges, l), ServiceReader: w.services, Writer: w.addresses, Events: w.api,
				}))}
			})
		},
		steps: []func(){
			func() { removeOutside(t, w.addresses, "", "10.0.0.1") },
			func() {
				w.addAddress("10.0.0.7", "b") // the service follows in time
				time.Sleep(50 * time.Second)
				w.addService("b", "10.0.0.7")
			},
			func() {
				removeOutside(t, w.services, "default", "old")
				removeOutside(t, w.addresses, "", "10.0.0.2")
			},
			func() {
				const event = "Warning ClusterIPOutOfRange: Cluster IP [IPv4]: 10.0.0.17 is not within any configured Service CIDR; please recreate service"
				for !w.hasEvent(event) {
					time.Sleep(time.Second)
				}
				w.addRange("late", "10.0.0.16/28")
			},
		},
		wanted: func() {
			var got []string
			for _, ip := range w.addresses.list() {
				got = append(got, ip.Name+"="+ip.Spec.ParentRef.Name)
			}
			slices.Sort(got)
			if want := []string{"10.0.0.17=far", "10.0.0.1=a", "10.0.0.5=taken", "10.0.0.6=g", "10.0.0.7=b"}; !slices.Equal(got, want) {
				t.Errorf("addresses %v, want %v", got, want)
			}
		},
	}
	w.addresses.check = func(old, new *networkingv1.IPAddress) {
		if new == nil && (old.Name == "10.0.0.6" || old.Name == "10.0.0.7") {
			t.Errorf("%s is deleted", old.Name)
		}
	}
	return st
}
