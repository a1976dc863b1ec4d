package planetest_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/planetest"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// addressCluster is a control plane in a bubble.
type addressCluster struct {
	t   *testing.T
	api *client.Client
}

// create creates a service and returns its address.
func (c addressCluster) create(name string) (string, error) {
	s, err := typed.Services(c.api).Create(c.t.Context(), &corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec:       corev1.ServiceSpec{Ports: []corev1.ServicePort{{Port: 80}}},
	})
	if err != nil {
		return "", err
	}
	return s.Spec.ClusterIP, nil
}

func (c addressCluster) mustCreate(name, prefix string) {
	c.t.Helper()
	if ip, err := c.create(name); err != nil || !strings.HasPrefix(ip, prefix) {
		c.t.Errorf("service %s has %s: %v", name, ip, err)
	}
}

func (c addressCluster) delete(name string) {
	c.t.Helper()
	c.must(typed.Services(c.api).Delete(c.t.Context(), "default", name, metav1.DeleteOptions{}))
}

func (c addressCluster) must(err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
}

// ready waits, and returns the status and the reason of a ServiceCIDR, or "gone".
func (c addressCluster) ready(name string, wait time.Duration) string {
	c.t.Helper()
	time.Sleep(wait)
	synctest.Wait()
	r, err := typed.ServiceCIDRs(c.api).Get(c.t.Context(), "", name)
	if err != nil {
		return "gone"
	}
	condition := meta.FindStatusCondition(r.Status.Conditions, networkingv1.ServiceCIDRConditionReady)
	if condition == nil || !slices.Equal(r.Finalizers, []string{"networking.k8s.io/service-cidr-finalizer"}) {
		return fmt.Sprint("incomplete ", r)
	}
	return strings.TrimSpace(string(condition.Status) + " " + condition.Reason)
}

// check compares the addresses of services with the IPAddresses.
func (c addressCluster) check() {
	c.t.Helper()
	services, _, err := typed.Services(c.api).List(c.t.Context(), "", metav1.ListOptions{})
	c.must(err)
	addresses, _, err := typed.IPAddresses(c.api).List(c.t.Context(), "", metav1.ListOptions{})
	c.must(err)
	var want, got []string
	for _, s := range services {
		want = append(want, s.Spec.ClusterIP+" "+s.Namespace+"/"+s.Name)
	}
	for _, ip := range addresses {
		got = append(got, ip.Name+" "+ip.Spec.ParentRef.Namespace+"/"+ip.Spec.ParentRef.Name)
	}
	slices.Sort(want)
	if slices.Sort(got); !slices.Equal(got, want) {
		c.t.Errorf("addresses %v\nservices  %v", got, want)
	}
}

// TestServiceRanges uses up the addresses of a cluster, adds ranges, and deletes ranges with and
// without services. What a client has deleted by hand is repaired.
func TestServiceRanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := planetest.Start(t, planetest.WithoutNetwork(), planetest.With(func(c *plane.Config) {
			c.ServiceCIDRs = []netip.Prefix{netip.MustParsePrefix("10.7.0.0/29")}
		}))
		c := addressCluster{t, p.Client()}
		ranges, addresses := typed.ServiceCIDRs(c.api), typed.IPAddresses(c.api)
		if got := c.ready("kubernetes", time.Minute); got != "True" {
			t.Errorf("range kubernetes: %s", got)
		}
		var all sync.WaitGroup
		for n := range 30 {
			all.Go(func() {
				if _, err := c.create(fmt.Sprint("s-", n)); err != nil && !strings.Contains(err.Error(), "range is full") {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if c.check(); len(services(t, c.api)) != 6 {
			t.Errorf("%d services", len(services(t, c.api)))
		}
		add := func(name, cidr string) {
			_, err := ranges.Create(t.Context(), &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: []string{cidr}}})
			c.must(err)
		}
		add("more", "10.8.0.0/24")
		c.mustCreate("more", "10.8.0.")
		if got := c.ready("more", time.Minute); got != "True" {
			t.Errorf("range more: %s", got)
		}
		// A range with an address stays, and gives no further one.
		c.must(ranges.Delete(t.Context(), "", "more", metav1.DeleteOptions{}))
		if _, err := c.create("late"); err == nil || !strings.Contains(err.Error(), "range is full") {
			t.Errorf("from a range that is going: %v", err)
		}
		if got := c.ready("more", time.Minute); got != "False Terminating" {
			t.Errorf("range more with a service: %s", got)
		}
		add("whole", "10.8.0.0/16") // has the address too
		if got := c.ready("more", time.Minute); got != "gone" {
			t.Errorf("range more inside another: %s", got)
		}
		c.must(ranges.Delete(t.Context(), "", "whole", metav1.DeleteOptions{}))
		if got := c.ready("whole", time.Minute); got != "False Terminating" {
			t.Errorf("range whole with a service: %s", got)
		}
		c.delete("more")
		if got := c.ready("whole", time.Second); got != "gone" {
			t.Errorf("range whole without a service: %s", got)
		}
		add("unused", "10.8.0.0/16")
		if got := c.ready("unused", time.Second); got != "True" {
			t.Errorf("range unused: %s", got)
		}
		c.must(ranges.Delete(t.Context(), "", "unused", metav1.DeleteOptions{}))
		// Other API servers may not know of the deletion for some seconds.
		if got := c.ready("unused", 5*time.Second) + " " + c.ready("unused", 6*time.Second); got != "True gone" {
			t.Errorf("range unused, deleted: %s", got)
		}
		// Addresses that do not fit their services are repaired.
		c.must(addresses.Delete(t.Context(), "", "10.7.0.1", metav1.DeleteOptions{}))
		_, err := addresses.Create(t.Context(), &networkingv1.IPAddress{
			ObjectMeta: metav1.ObjectMeta{Name: "10.9.0.9", Labels: map[string]string{networkingv1.LabelManagedBy: "ipallocator.k8s.io"}},
			Spec:       networkingv1.IPAddressSpec{ParentRef: &networkingv1.ParentReference{Resource: "services", Namespace: "default", Name: "none"}},
		})
		c.must(err)
		time.Sleep(2 * time.Minute)
		c.check()
		c.told("ClusterIPNotAllocated", "IPAddressNotAllocated")
		// The range of the cluster goes only after its services, and comes back.
		c.must(ranges.Delete(t.Context(), "", "kubernetes", metav1.DeleteOptions{}))
		if got := c.ready("kubernetes", time.Minute); got != "False Terminating" {
			t.Errorf("range kubernetes, deleted: %s", got)
		}
		for _, s := range services(t, c.api) {
			c.must(typed.Services(c.api).Delete(t.Context(), s.Namespace, s.Name, metav1.DeleteOptions{}))
		}
		if got := c.ready("kubernetes", time.Minute); got != "True" {
			t.Errorf("range kubernetes, back: %s", got)
		}
		c.check()
	})
}

func services(t *testing.T, api *client.Client) []*corev1.Service {
	t.Helper()
	all, _, err := typed.Services(api).List(t.Context(), "", metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// told checks that there are Events with the reasons.
func (c addressCluster) told(reasons ...string) {
	c.t.Helper()
	planetest.Eventually(c.t, func() error {
		all, _, err := typed.Events(c.api).List(context.WithoutCancel(c.t.Context()), "", metav1.ListOptions{})
		for _, reason := range reasons {
			if !slices.ContainsFunc(all, func(e *corev1.Event) bool { return e.Reason == reason }) {
				err = errors.Join(err, fmt.Errorf("no Event %s", reason))
			}
		}
		return err
	})
}
