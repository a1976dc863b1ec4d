//lint:file-ignore SA1019 users still make Endpoints by hand

package controllers_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/endpoints"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (w *endpointWorld) newMirror(ctx context.Context, l, ours lag) (*endpoints.Mirror, error) {
	written := follow(ctx, w.slices, ours)
	return endpoints.NewMirror(endpoints.MirrorConfig{
		Services: follow(ctx, w.services, l), Endpoints: follow(ctx, w.endpoints, l), EndpointSlices: written,
		SlicesByService: localcache.Scan(written, endpoints.ByService),
		Writer:          w.slices, Events: w.api, MaxEndpoints: 5,
	})
}

func (w *endpointWorld) launchMirror(t *testing.T, l, ours lag) *process {
	return launch(t, func(ctx context.Context) []controllers.Runner {
		return []controllers.Runner{must[*endpoints.Mirror](t)(w.newMirror(ctx, l, ours))}
	})
}

// byHand is a service that selects nothing.
func byHand(name string) *corev1.Service {
	s := newService(name, "")
	s.Spec.Selector = nil
	return s
}

// handMade are Endpoints with addresses at a port; those that begin with "-" are not
// ready.
func handMade(name string, port int32, addresses ...string) *corev1.Endpoints {
	return &corev1.Endpoints{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Subsets: []corev1.EndpointSubset{handMadeSubset(port, addresses...)}}
}

func handMadeSubset(port int32, addresses ...string) corev1.EndpointSubset {
	s := corev1.EndpointSubset{Ports: []corev1.EndpointPort{{Port: port, Protocol: corev1.ProtocolTCP}}}
	for _, ip := range addresses {
		if not, ok := strings.CutPrefix(ip, "-"); ok {
			s.NotReadyAddresses = append(s.NotReadyAddresses, corev1.EndpointAddress{IP: not})
		} else {
			s.Addresses = append(s.Addresses, corev1.EndpointAddress{IP: ip})
		}
	}
	return s
}

// mirror returns the contents of the slices of a service, one line each: "IPv4:80 10.0.0.1
// -10.0.0.2".
func (w *endpointWorld) mirror(name string) (lines []string) {
	for _, s := range w.slices.list() {
		if s.Labels[discoveryv1.LabelServiceName] != name || s.Labels[discoveryv1.LabelManagedBy] != "endpointslicemirroring-controller.k8s.io" {
			continue
		}
		var words []string
		for _, e := range s.Endpoints {
			word := e.Addresses[0]
			if !*e.Conditions.Ready {
				word = "-" + word
			}
			words = append(words, word)
		}
		slices.Sort(words)
		lines = append(lines, fmt.Sprintf("%s:%d %s", s.AddressType, *s.Ports[0].Port, strings.Join(words, " ")))
	}
	slices.Sort(lines)
	return lines
}

func (w *endpointWorld) wantMirror(t *testing.T, step, name string, want ...string) {
	t.Helper()
	if got := w.mirror(name); !slices.Equal(got, want) {
		t.Errorf("%s: slices of %s say %q, want %q", step, name, got, want)
	}
}

// TestEndpointSliceMirror makes Endpoints by hand, changes them and what decides
// whether they are mirrored, and looks at once.
func TestEndpointSliceMirror(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEndpointWorld(t)
		p := w.launchMirror(t, lag{}, lag{})
		change := func(name string, f func(*corev1.Endpoints)) {
			w.endpoints.alter(t, "default/"+name, f)
			synctest.Wait()
		}
		put(w.endpoints, handMade("db", 80, "10.0.0.1", "-10.0.0.2", "fd00::1"))
		synctest.Wait()
		w.wantMirror(t, "without a service", "db")
		put(w.services, byHand("db"))
		synctest.Wait()
		w.wantMirror(t, "with one", "db", "IPv4:80 -10.0.0.2 10.0.0.1", "IPv6:80 fd00::1")
		name := w.slices.list()[0].Name
		change("db", func(e *corev1.Endpoints) { e.Subsets[0].Ports[0].Port = 90 })
		w.wantMirror(t, "another port", "db", "IPv4:90 -10.0.0.2 10.0.0.1", "IPv6:90 fd00::1")
		if got := w.slices.list()[0].Name; got != name {
			t.Errorf("slice %s instead of %s, which could have been used", got, name)
		}
		change("db", func(e *corev1.Endpoints) {
			e.Labels = map[string]string{"endpointslice.kubernetes.io/skip-mirror": "true"}
		})
		w.wantMirror(t, "skipped", "db")
		change("db", func(e *corev1.Endpoints) { e.Labels = map[string]string{"app": "db"} })
		w.wantMirror(t, "not skipped", "db", "IPv4:90 -10.0.0.2 10.0.0.1", "IPv6:90 fd00::1")
		change("db", func(e *corev1.Endpoints) {
			e.Annotations = map[string]string{"control-plane.alpha.kubernetes.io/leader": "{}"}
		})
		w.wantMirror(t, "an election", "db")
		change("db", func(e *corev1.Endpoints) { e.Annotations = nil })
		w.services.alter(t, "default/db", func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "db"} })
		synctest.Wait()
		w.wantMirror(t, "with a selector", "db")
		w.services.alter(t, "default/db", func(s *corev1.Service) { s.Spec.Selector = nil })
		synctest.Wait()
		w.wantMirror(t, "without a selector", "db", "IPv4:90 -10.0.0.2 10.0.0.1", "IPv6:90 fd00::1")

		// A client that changes or deletes a slice finds it restored.
		w.slices.alter(t, keyOf(w.slices.list()[0]), func(s *discoveryv1.EndpointSlice) { s.Endpoints = nil })
		removeOutside(t, w.slices, "default", w.slices.list()[1].Name)
		synctest.Wait()
		w.wantMirror(t, "touched", "db", "IPv4:90 -10.0.0.2 10.0.0.1", "IPv6:90 fd00::1")
		other := &discoveryv1.EndpointSlice{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "mine",
			Labels: map[string]string{discoveryv1.LabelServiceName: "db", discoveryv1.LabelManagedBy: "me"}}, AddressType: discoveryv1.AddressTypeIPv4}
		put(w.slices, other)
		removeOutside(t, w.endpoints, "default", "db")
		synctest.Wait()
		w.wantMirror(t, "without Endpoints", "db")
		if left := w.slices.list(); len(left) != 1 || left[0].Name != "mine" {
			t.Errorf("left are %v", left)
		}
		if len(w.events)+len(w.blind) > 0 {
			t.Errorf("events %q, deletions without a UID %q", w.events, w.blind)
		}
		p.stop(t)
	})
}

// TestMirrorTells checks that what is not mirrored is reported, once for every change.
func TestMirrorTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEndpointWorld(t)
		p := w.launchMirror(t, lag{}, lag{})
		put(w.services, byHand("db"))
		put(w.endpoints, handMade("db", 80, "10.0.0.x", "10.0.0.1", "10.0.0.2"))
		synctest.Wait()
		w.endpoints.alter(t, "default/db", func(e *corev1.Endpoints) {
			e.Subsets[0] = handMadeSubset(80, "10.0.0.!", "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4", "10.0.0.5", "-10.0.0.0")
		})
		settle()
		w.wantMirror(t, "too many", "db", "IPv4:80 10.0.0.1 10.0.0.2 10.0.0.3 10.0.0.4 10.0.0.5")
		want := []string{
			"Warning InvalidIPAddress: Skipped 1 invalid IP addresses when mirroring to EndpointSlices",
			"Warning InvalidIPAddress: Skipped 1 invalid IP addresses when mirroring to EndpointSlices",
			"Warning TooManyAddressesToMirror: A max of 5 addresses can be mirrored to EndpointSlices per Endpoints subset. 2 addresses were skipped",
		}
		if !slices.Equal(w.events, want) {
			t.Errorf("events %q, want %q", w.events, want)
		}
		p.stop(t)
	})
}

// TestMirrorReadsItsSlices: while the copy lacks the slice that was made, no other is.
func TestMirrorReadsItsSlices(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEndpointWorld(t)
		asked := w.creations("EndpointSlice")
		p := w.launchMirror(t, lag{}, lag{least: time.Minute})
		put(w.services, byHand("db"))
		put(w.endpoints, handMade("db", 80, "10.0.0.1"))
		poke(t, w.endpoints, "default/db")
		settle()
		if late := w.tooLate(); *asked != 1 || len(late) > 0 {
			t.Errorf("%d slices were asked for, want 1; %v", *asked, late)
		}
		p.stop(t)
	})
}

// TestMirrorEnds: for Endpoints that go, and in a namespace that goes, no slices are
// made any more.
func TestMirrorEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newEndpointWorld(t)
		going := handMade("going", 80, "10.0.0.1")
		going.Finalizers = []string{"example.com/held"}
		put(w.endpoints, going)
		removeOutside(t, w.endpoints, "default", "going")
		put(w.endpoints, handMade("late", 80, "10.0.0.1"))
		asked := 0
		w.fault = func(verb, name string) (bool, error) {
			asked++
			err := apierrors.NewForbidden(discoveryv1.Resource("endpointslices"), name, fmt.Errorf("the namespace is being terminated"))
			err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: corev1.NamespaceTerminatingCause}}
			return false, err
		}
		p := w.launchMirror(t, lag{}, lag{})
		synctest.Wait() // each is looked at once more when its service comes
		put(w.services, byHand("going"))
		put(w.services, byHand("late"))
		settle()
		if asked != 1 {
			t.Errorf("%d slices were asked for, want 1", asked)
		}
		p.stop(t)
	})
}

func TestMirrorConfig(t *testing.T) {
	w := newEndpointWorld(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	written := follow(ctx, w.slices, lag{})
	config := endpoints.MirrorConfig{
		Services: follow(ctx, w.services, lag{}), Endpoints: follow(ctx, w.endpoints, lag{}), EndpointSlices: written,
		SlicesByService: localcache.Scan(written, endpoints.ByService), Writer: w.slices,
	}
	for most, fine := range map[int]bool{-1: false, 0: true, 1: true, 1000: true, 1001: false} {
		config.MaxEndpoints = most
		if _, err := endpoints.NewMirror(config); (err == nil) != fine {
			t.Errorf("MaxEndpoints %d: %v", most, err)
		}
	}
}

// mirrors has Endpoints change, go and come again, and their service get a selector
// for a while. No two slices ever say the same.
func mirrors(t *testing.T, _ context.Context, _ *rand.Rand) stage {
	w := newEndpointWorld(t)
	put(w.services, byHand("db"))
	put(w.endpoints, handMade("db", 80, "10.0.0.1", "fd00::1"))
	w.slices.check = func(_, _ *discoveryv1.EndpointSlice) {
		for _, a := range w.slices.objects {
			for _, b := range w.slices.objects {
				if a.Name < b.Name && a.AddressType == b.AddressType && *a.Ports[0].Port == *b.Ports[0].Port {
					t.Errorf("%s and %s have the same ports", a.Name, b.Name)
				}
			}
		}
	}
	st := single(t, w.api, func(ctx context.Context, l lag) (*endpoints.Mirror, error) {
		return w.newMirror(ctx, l, l)
	})
	change := func(f func(*corev1.Endpoints)) func() {
		return func() { w.endpoints.alter(t, "default/db", f) }
	}
	st.steps = []func(){
		change(func(e *corev1.Endpoints) {
			e.Subsets = []corev1.EndpointSubset{handMadeSubset(80, "10.0.0.1", "-10.0.0.2")}
		}),
		change(func(e *corev1.Endpoints) {
			e.Subsets = []corev1.EndpointSubset{handMadeSubset(80, "10.0.0.1"), handMadeSubset(90, "10.0.0.2", "fd00::1")}
		}),
		func() {
			w.services.alter(t, "default/db", func(s *corev1.Service) { s.Spec.Selector = map[string]string{"app": "db"} })
		},
		func() { w.services.alter(t, "default/db", func(s *corev1.Service) { s.Spec.Selector = nil }) },
		func() { removeOutside(t, w.endpoints, "default", "db") },
		func() { put(w.endpoints, handMade("db", 80, "10.0.0.7", "-fd00::7")) },
	}
	st.wanted = func() {
		w.wantMirror(t, "in the end", "db", "IPv4:80 10.0.0.7", "IPv6:80 -fd00::7")
		for _, s := range w.slices.list() {
			if s.OwnerReferences[0].UID != w.endpoints.list()[0].UID {
				t.Errorf("%s is of Endpoints that are gone", s.Name)
			}
		}
	}
	return st
}
