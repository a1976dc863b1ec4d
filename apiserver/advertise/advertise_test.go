//lint:file-ignore SA1019 clients still read Endpoints

package advertise_test

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-logr/logr/funcr"
	"github.com/planekit/planekit/apiserver/advertise"
	"github.com/planekit/planekit/storage"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// start runs a server until stop is called.
func start(t *testing.T, config advertise.Config) (stop func()) {
	t.Helper()
	a, err := advertise.New(config)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	return func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// listed are the addresses in Endpoints, and it fails where the slice has others.
func (w *world) listed(t *testing.T) string {
	t.Helper()
	e, s := w.endpoints.one(), w.slices.one()
	var have, sliced []string
	for _, subset := range e.Subsets {
		for _, a := range subset.Addresses {
			have = append(have, fmt.Sprintf("%s:%d", a.IP, subset.Ports[0].Port))
		}
	}
	for _, endpoint := range s.Endpoints {
		sliced = append(sliced, fmt.Sprintf("%s:%d", endpoint.Addresses[0], *s.Ports[0].Port))
		if !*endpoint.Conditions.Ready {
			t.Errorf("%v is not ready", endpoint.Addresses)
		}
	}
	if !slices.Equal(have, sliced) || e.Labels["endpointslice.kubernetes.io/skip-mirror"] != "true" || s.Labels["kubernetes.io/service-name"] != "kubernetes" {
		t.Errorf("endpoints %v with labels %v, slice %v with labels %v", have, e.Labels, sliced, s.Labels)
	}
	return strings.Join(have, " ")
}

func (w *world) want(t *testing.T, after, want string) {
	t.Helper()
	synctest.Wait()
	if got := w.listed(t); got != want {
		t.Errorf("%s: endpoints %q, want %q", after, got, want)
	}
}

// contested are services that another writer has changed the first times.
type contested struct {
	*objects[*corev1.Service]
	times int
}

func (c *contested) Create(ctx context.Context, s *corev1.Service) (*corev1.Service, error) {
	if c.times--; c.times >= 0 {
		return nil, apierrors.NewConflict(schema.GroupResource{Resource: "services"}, s.Name, errors.New("modified"))
	}
	return c.objects.Create(ctx, s)
}

// TestConflicts: one conflict is no error, since controllers write too when a cluster starts. Several in a row are.
func TestConflicts(t *testing.T) {
	for times, want := range map[int]int{0: 0, 1: 0, 3: 2} {
		synctest.Test(t, func(t *testing.T) {
			w, failures := newWorld(), 0
			config := w.config("192.0.2.1:6443")
			config.Services = &contested{w.services, times}
			config.Log = funcr.New(func(_, text string) {
				if strings.Contains(text, "cannot advertise") {
					failures++
				}
			}, funcr.Options{})
			stop := start(t, config)
			time.Sleep(time.Minute)
			w.want(t, "conflicts", "192.0.2.1:6443")
			stop()
			if failures != want {
				t.Errorf("%d conflicts are logged %d times, want %d", times, failures, want)
			}
		})
	}
}

func TestObjects(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		stop := start(t, w.config("192.0.2.1:6443"))
		w.want(t, "a server", "192.0.2.1:6443")
		s := w.services.one()
		port := s.Spec.Ports[0]
		if s.Namespace != "default" || s.Name != "kubernetes" || s.Spec.ClusterIP != "10.96.0.1" || s.Spec.Selector != nil ||
			len(s.Spec.Ports) != 1 || port.Name != "https" || port.Port != 443 || port.TargetPort.IntVal != 6443 ||
			s.Labels["component"] != "apiserver" || s.Labels["provider"] != "kubernetes" {
			t.Errorf("service %+v", s)
		}
		r := w.ranges.one()
		ready := meta.FindStatusCondition(r.Status.Conditions, "Ready")
		if r.Name != "kubernetes" || !slices.Equal(r.Spec.CIDRs, []string{"10.96.0.0/12"}) || ready == nil || ready.Status != metav1.ConditionTrue ||
			!slices.Equal(r.Finalizers, []string{"networking.k8s.io/service-cidr-finalizer"}) {
			t.Errorf("range %+v", r)
		}
		before := w.writes()
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := w.writes() - before; n > 0 {
			t.Errorf("%d writes of what is as it should be", n)
		}
		stop()
		w.want(t, "none", "")
	})
}

// TestSeveralServers come, go and die.
func TestSeveralServers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		one := start(t, w.config("192.0.2.1:6443"))
		two := start(t, w.config("192.0.2.2:6443"))
		config := w.config("192.0.2.3:6443")
		life := &mortal{Leases: config.Leases}
		config.Leases = life
		three := start(t, config)
		time.Sleep(11 * time.Second)
		w.want(t, "three servers", "192.0.2.1:6443 192.0.2.2:6443 192.0.2.3:6443")
		before := w.writes()
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := w.writes() - before; n > 0 {
			t.Errorf("%d writes by servers that agree", n)
		}
		one()
		w.want(t, "one is stopped", "192.0.2.2:6443 192.0.2.3:6443")
		life.kill()
		time.Sleep(8 * time.Second)
		w.want(t, "a short silence", "192.0.2.2:6443 192.0.2.3:6443")
		time.Sleep(30 * time.Second)
		w.want(t, "one is dead", "192.0.2.2:6443")
		three()
		two()
		w.want(t, "all are stopped", "")
	})
}

// TestChangesAreUndone: what users do to the endpoints lasts ten seconds; the
// Service is theirs, unless they delete it.
func TestChangesAreUndone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		stop := start(t, w.config("192.0.2.1:6443"))
		synctest.Wait()
		e := w.endpoints.one()
		e.Subsets, e.Labels = nil, nil
		if _, err := w.endpoints.Update(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		s := w.services.one()
		s.Spec.Type = corev1.ServiceTypeNodePort
		if _, err := w.services.Update(t.Context(), s); err != nil {
			t.Fatal(err)
		}
		_ = w.slices.Delete(t.Context(), "default", "kubernetes", metav1.DeleteOptions{})
		time.Sleep(11 * time.Second)
		w.want(t, "changed", "192.0.2.1:6443")
		if s := w.services.one(); s.Spec.Type != corev1.ServiceTypeNodePort {
			t.Errorf("the service was changed back to %s", s.Spec.Type)
		}
		_ = w.services.Delete(t.Context(), "default", "kubernetes", metav1.DeleteOptions{})
		time.Sleep(11 * time.Second)
		synctest.Wait()
		if s := w.services.one(); s.Spec.Type != corev1.ServiceTypeClusterIP {
			t.Errorf("type %s", s.Spec.Type)
		}
		stop()
	})
}

// TestKubeAPIServerBeside: the leases of kube-apiserver count, in protobuf and
// without a port.
func TestKubeAPIServerBeside(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		lease := &corev1.Endpoints{Subsets: []corev1.EndpointSubset{{Addresses: []corev1.EndpointAddress{{IP: "192.0.2.9"}}}}}
		raw, err := lease.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		envelope := runtime.Unknown{TypeMeta: runtime.TypeMeta{APIVersion: "v1", Kind: "Endpoints"}, Raw: raw}
		value, err := envelope.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		change := storage.Change{Op: storage.Create, Key: "/masterleases/192.0.2.9", Value: append([]byte("k8s\x00"), value...), TTL: 15 * time.Second}
		if _, err := w.store.Commit(t.Context(), change); err != nil {
			t.Fatal(err)
		}
		stop := start(t, w.config("192.0.2.10:6443"))
		w.want(t, "both", "192.0.2.9:6443 192.0.2.10:6443")
		time.Sleep(40 * time.Second)
		w.want(t, "it is stopped", "192.0.2.10:6443")
		stop()
	})
}

// TestOtherPort: servers that cannot share an object do not fight about it.
func TestOtherPort(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		high, low := start(t, w.config("192.0.2.2:6444")), start(t, w.config("192.0.2.1:6443"))
		time.Sleep(11 * time.Second)
		w.want(t, "both", "192.0.2.1:6443")
		before := w.writes()
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := w.writes() - before; n > 0 {
			t.Errorf("%d writes", n)
		}
		low()
		time.Sleep(11 * time.Second)
		w.want(t, "one", "192.0.2.2:6444")
		high()
	})
}

// TestFamilyChanges: a slice of the other family replaces the old one.
func TestFamilyChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		start(t, w.config("192.0.2.1:6443"))()
		stop := start(t, w.config("[2001:db8::1]:6443"))
		w.want(t, "IPv6", "2001:db8::1:6443")
		if s := w.slices.one(); s.AddressType != discoveryv1.AddressTypeIPv6 {
			t.Errorf("a slice of %s", s.AddressType)
		}
		stop()
	})
}

func TestRanges(t *testing.T) {
	both := []netip.Prefix{netip.MustParsePrefix("10.96.0.0/12"), netip.MustParsePrefix("fd00::/112")}
	for name, test := range map[string]struct {
		have  []string
		going bool
		want  []string
		ready metav1.ConditionStatus
	}{
		"none":            {nil, false, []string{"10.96.0.0/12", "fd00::/112"}, metav1.ConditionTrue},
		"a second family": {[]string{"10.96.0.0/12"}, false, []string{"10.96.0.0/12", "fd00::/112"}, metav1.ConditionTrue},
		"another":         {[]string{"10.0.0.0/16"}, false, []string{"10.0.0.0/16"}, ""},
		"being deleted":   {[]string{"10.96.0.0/12", "fd00::/112"}, true, []string{"10.96.0.0/12", "fd00::/112"}, metav1.ConditionFalse},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld()
				if test.have != nil {
					r := &networkingv1.ServiceCIDR{ObjectMeta: metav1.ObjectMeta{Name: "kubernetes", Finalizers: []string{"other"}}, Spec: networkingv1.ServiceCIDRSpec{CIDRs: test.have}}
					if test.going {
						r.DeletionTimestamp = new(metav1.Now())
					}
					if _, err := w.ranges.Create(t.Context(), r); err != nil {
						t.Fatal(err)
					}
				}
				config := w.config("192.0.2.1:6443")
				config.Ranges = both
				stop := start(t, config)
				time.Sleep(time.Minute)
				synctest.Wait()
				r := w.ranges.one()
				c := meta.FindStatusCondition(r.Status.Conditions, "Ready")
				if !slices.Equal(r.Spec.CIDRs, test.want) || (c == nil) != (test.ready == "") || c != nil && c.Status != test.ready {
					t.Errorf("range %v, condition %+v", r.Spec.CIDRs, c)
				}
				if kept := slices.Contains(r.Finalizers, "networking.k8s.io/service-cidr-finalizer"); kept == test.going {
					t.Errorf("finalizers %v", r.Finalizers)
				}
				if n := w.ranges.writes; n > 3 {
					t.Errorf("%d writes", n)
				}
				stop()
			})
		})
	}
}

// TestNoAddress: without one there are the Service and the range, and no endpoints.
func TestNoAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld()
		config := w.config("192.0.2.1:6443")
		config.Address = netip.AddrPort{}
		stop := start(t, config)
		synctest.Wait()
		if w.services.one() == nil || w.ranges.one() == nil || len(w.endpoints.all)+len(w.slices.all) > 0 {
			t.Error("there are endpoints, or there is no service")
		}
		stop()
	})
}

func TestConfig(t *testing.T) {
	for name, change := range map[string]func(*advertise.Config){
		"no services":     func(c *advertise.Config) { c.Services = nil },
		"no leases":       func(c *advertise.Config) { c.Leases = nil },
		"loopback":        func(c *advertise.Config) { c.Address = netip.MustParseAddrPort("127.0.0.1:6443") },
		"any address":     func(c *advertise.Config) { c.Address = netip.MustParseAddrPort("0.0.0.0:6443") },
		"no port":         func(c *advertise.Config) { c.Address = netip.MustParseAddrPort("192.0.2.1:0") },
		"no range":        func(c *advertise.Config) { c.Ranges = nil },
		"two of a family": func(c *advertise.Config) { c.Ranges = append(c.Ranges, c.Ranges[0]) },
	} {
		config := newWorld().config("192.0.2.1:6443")
		change(&config)
		if _, err := advertise.New(config); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
