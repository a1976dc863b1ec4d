package aggregate_test

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/apiserver/aggregate"
	"github.com/planekit/planekit/kinds/apiregistration"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// lost finds no service: nothing is asked over the network.
func lost(err error) aggregate.Resolver {
	return aggregate.ResolverFunc(func(context.Context, string, string, int32) (*url.URL, error) { return nil, err })
}

// check returns the condition that is found first.
func check(t *testing.T, c *copies, resolver aggregate.Resolver) (found apiregistration.APIServiceCondition) {
	synctest.Test(t, func(t *testing.T) {
		run(t, aggregate.Config{APIServices: c.apiServices, Services: c.services, EndpointSlices: c.slices, Endpoints: c.endpoints, Status: c, Resolver: resolver})
		synctest.Wait()
		s, _ := c.apiServices.Get(name)
		if len(s.Status.Conditions) != 1 {
			t.Fatalf("conditions: %+v", s.Status.Conditions)
		}
		found = s.Status.Conditions[0]
	})
	return found
}

// TestConditions: what is wrong is said as kube-aggregator does.
func TestConditions(t *testing.T) {
	for want, change := range map[string]func(*copies){
		`False ServiceNotFound service/metrics in "kube-system" is not present`: func(c *copies) {
			c.services.Delete("kube-system/metrics")
		},
		`False ServicePortError service/metrics in "kube-system" is not listening on port 443`: func(c *copies) {
			other := service443("metrics")
			other.Spec.Ports[0].Port = 80
			c.services.Put(other)
		},
		`False EndpointsNotFound cannot find endpointslices for service/metrics in "kube-system"`: func(c *copies) {
			c.slices.Delete("kube-system/metrics")
		},
		`False MissingEndpoints endpointslices for service/metrics in "kube-system" have no addresses with port name "https"`: func(c *copies) {
			c.slices.Put(slice("metrics", 1, "unready 10.0.0.1"))
		},
		`False FailedDiscoveryCheck lost`: func(*copies) {},
		`True Local Local APIServices are always available`: func(c *copies) {
			s, _ := c.apiServices.Get(name)
			s.Spec.Service = nil
			s.Status.Conditions = []apiregistration.APIServiceCondition{{Type: "Available", Status: "False", Reason: "Passed"}}
		},
	} {
		c := newCopies()
		c.add(&net.TCPAddr{Port: 1}, nil)
		change(c)
		found := check(t, c, lost(errors.New("lost")))
		if have := string(found.Status) + " " + found.Reason + " " + found.Message; have != want || found.Type != "Available" || found.LastTransitionTime.IsZero() {
			t.Errorf("%+v, want %s", found, want)
		}
	}
}

// TestRetries: what does not answer is asked again, each time later, and nothing
// is written while nothing changes. A change of what it hangs on is seen at once.
func TestRetries(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCopies()
		c.add(&net.TCPAddr{Port: 1}, nil)
		begin := time.Now()
		var mu sync.Mutex
		var asked []time.Duration
		checks := func() []time.Duration {
			mu.Lock()
			defer mu.Unlock()
			return slices.Compact(slices.Clone(asked))
		}
		run(t, aggregate.Config{
			APIServices: c.apiServices, Services: c.services, EndpointSlices: c.slices, Endpoints: c.endpoints, Status: c,
			Resolver: aggregate.ResolverFunc(func(context.Context, string, string, int32) (*url.URL, error) {
				mu.Lock()
				defer mu.Unlock()
				asked = append(asked, time.Since(begin))
				return nil, errors.New("lost")
			}),
		})
		time.Sleep(100 * time.Second)
		const ms = time.Millisecond
		want := []time.Duration{0, 250 * ms, 750 * ms, 1750 * ms, 3750 * ms, 7750 * ms, 15750 * ms, 31750 * ms, 61750 * ms, 91750 * ms}
		if got := checks(); !slices.Equal(got, want) {
			t.Errorf("asked after %v, want %v", got, want)
		}
		if n := c.written(); n != 1 {
			t.Errorf("%d conditions written", n)
		}
		c.services.Put(service443("metrics"))
		synctest.Wait()
		c.slices.Put(slice("metrics", 2))
		synctest.Wait()
		if got := len(checks()); got != len(want)+1 { // both at the same time
			t.Errorf("%d checks after a change, want %d", got, len(want)+1)
		}
		mu.Lock()
		if n := len(asked); n != 5*(len(want)+2) {
			t.Errorf("%d attempts", n)
		}
		mu.Unlock()
		c.apiServices.Delete(name)
		synctest.Wait()
		before := len(checks())
		time.Sleep(time.Hour)
		if got := len(checks()); got != before {
			t.Errorf("%d checks of what is gone", got-before)
		}
	})
}

func (c *copies) written() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.writes
}

// TestConditionIsWrittenInTheEnd: a write that fails is made again.
func TestConditionIsWrittenInTheEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newCopies()
		c.refuse = errors.New("no room")
		c.add(&net.TCPAddr{Port: 1}, nil)
		c.services.Delete("kube-system/metrics")
		run(t, aggregate.Config{APIServices: c.apiServices, Services: c.services, EndpointSlices: c.slices, Endpoints: c.endpoints, Status: c, Resolver: lost(nil)})
		time.Sleep(time.Minute)
		if s, _ := c.apiServices.Get(name); len(s.Status.Conditions) > 0 || c.written() < 5 || c.written() > 12 {
			t.Errorf("%d writes, %+v", c.written(), s.Status)
		}
		c.mu.Lock()
		c.refuse = nil
		c.mu.Unlock()
		time.Sleep(30 * time.Second)
		s, _ := c.apiServices.Get(name)
		if len(s.Status.Conditions) != 1 || s.Status.Conditions[0].Reason != "ServiceNotFound" {
			t.Fatalf("the status is %+v, want one condition with the reason ServiceNotFound", s.Status)
		}
		// A server that is still away for another reason has been so since then.
		since := s.Status.Conditions[0].LastTransitionTime
		time.Sleep(time.Minute)
		c.services.Put(service443("metrics"))
		c.slices.Delete("kube-system/metrics")
		synctest.Wait()
		s, _ = c.apiServices.Get(name)
		if have := s.Status.Conditions[0]; have.Reason != "EndpointsNotFound" || !have.LastTransitionTime.Equal(&since) {
			t.Errorf("%+v, since %v", have, since)
		}
	})
}

// TestOneEndpointOfManyIsEnough: as for kube-aggregator, one that answers makes a
// server available.
func TestOneEndpointOfManyIsEnough(t *testing.T) {
	other := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Write([]byte(discovery))
	}))
	defer other.Close()
	c := newCopies()
	c.add(other.Listener.Addr().(*net.TCPAddr), nil)
	s, _ := c.apiServices.Get(name)
	s.Spec.InsecureSkipTLSVerify = true
	var mu sync.Mutex
	attempts := 0
	run(t, aggregate.Config{
		APIServices: c.apiServices, Services: c.services, EndpointSlices: c.slices, Endpoints: c.endpoints, Status: c,
		Resolver: aggregate.ResolverFunc(func(context.Context, string, string, int32) (*url.URL, error) {
			mu.Lock()
			defer mu.Unlock()
			if attempts++; attempts != 3 && attempts <= 5 {
				return nil, errors.New("lost")
			}
			return &url.URL{Scheme: "https", Host: "127.0.0.1:" + strconv.Itoa(int(c.port))}, nil
		}),
	})
	c.condition(t, "True Passed")
	if n := c.written(); n != 1 {
		t.Errorf("it took %d conditions", n)
	}
}

func TestNewRefuses(t *testing.T) {
	if _, err := aggregate.New(aggregate.Config{}); err == nil {
		t.Error("no copies, no error")
	}
}

// TestPriorities: groups and versions are in the order of their priorities, those
// of this server among them.
func TestPriorities(t *testing.T) {
	c := newCopies()
	for _, s := range []struct {
		group, version string
		of             [2]int32
	}{
		{"b.example.com", "v1", [2]int32{100, 1}}, {"b.example.com", "v2", [2]int32{900, 1}}, {"b.example.com", "v2beta1", [2]int32{100, 1}},
		{"b.example.com", "v1alpha1", [2]int32{100, 5}}, {"a.example.com", "v1", [2]int32{100, 1}}, {"apps", "v1", [2]int32{17800, 15}},
		{"c.example.com", "v1", [2]int32{900, 1}},
	} {
		object := &apiregistration.APIService{
			ObjectMeta: metav1.ObjectMeta{Name: s.version + "." + s.group},
			Spec:       apiregistration.APIServiceSpec{Group: s.group, Version: s.version, GroupPriorityMinimum: s.of[0], VersionPriority: s.of[1]},
		}
		if s.group != "apps" {
			object.Spec.Service = &apiregistration.ServiceReference{Namespace: "n", Name: "s"}
		}
		c.apiServices.Put(object)
	}
	synctest.Test(t, func(t *testing.T) {
		a := run(t, aggregate.Config{APIServices: c.apiServices, Services: c.services, EndpointSlices: c.slices, Endpoints: c.endpoints, Status: c})
		var have []string
		for _, v := range a.GroupVersions() {
			have = append(have, v.String())
			if v.Local != (v.Group == "apps") || v.Stale == v.Local || (a.Handler(v.GroupVersion) == nil) != v.Local {
				t.Errorf("GroupVersions has %+v with a handler: %t, want apps to be local, and all else stale with a handler",
					v, a.Handler(v.GroupVersion) != nil)
			}
		}
		want := []string{"apps/v1", "b.example.com/v1alpha1", "b.example.com/v2", "b.example.com/v1", "b.example.com/v2beta1", "c.example.com/v1", "a.example.com/v1"}
		if !slices.Equal(have, want) {
			t.Errorf("order %v, want %v", have, want)
		}
	})
}

func TestResolvers(t *testing.T) {
	c := newCopies()
	c.add(&net.TCPAddr{Port: 8443}, nil)
	more := slice("metrics", 8444, "10.0.0.2", "10.0.0.3", "unready 10.0.0.4")
	more.Name = "more"
	c.slices.Put(more)
	other := slice("metrics", 1, "10.0.0.5")
	other.Name, other.Ports[0].Name = "other", new("http")
	c.slices.Put(other)
	c.services.Put(&corev1.Service{
		ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "outside"},
		Spec:       corev1.ServiceSpec{Type: corev1.ServiceTypeExternalName, ExternalName: "api.example.com"},
	})
	headless := service443("headless")
	headless.Spec.ClusterIP = corev1.ClusterIPNone
	c.services.Put(headless)
	endpoints, addresses := aggregate.ByEndpoints(c.services, c.endpoints), aggregate.ByClusterIP(c.services)
	for _, test := range []struct {
		resolver aggregate.Resolver
		service  string
		port     int32
		want     []string // empty is an error
	}{
		{endpoints, "metrics", 443, []string{"https://10.0.0.2:8444", "https://10.0.0.3:8444", "https://127.0.0.1:8443"}},
		{endpoints, "metrics", 80, nil},
		{endpoints, "headless", 443, nil},
		{endpoints, "none", 443, nil},
		{endpoints, "outside", 444, []string{"https://api.example.com:444"}},
		{addresses, "metrics", 443, []string{"https://10.0.0.9:443"}},
		{addresses, "metrics", 80, nil},
		{addresses, "headless", 443, nil},
		{addresses, "none", 443, nil},
		{addresses, "outside", 444, []string{"https://api.example.com:444"}},
	} {
		var found []string
		for range 200 { // one of three is left out once in 10^35 runs
			at, err := test.resolver.Resolve(t.Context(), "kube-system", test.service, test.port)
			if (err != nil) != (len(test.want) == 0) {
				t.Fatalf("Resolve(%s, %d) = %v, %v, want one of %q (an error if empty)", test.service, test.port, at, err, test.want)
			}
			if err == nil && !slices.Contains(found, at.String()) {
				found = append(found, at.String())
			}
		}
		if slices.Sort(found); !slices.Equal(found, test.want) {
			t.Errorf("%s:%d is at %v, want %v", test.service, test.port, found, test.want)
		}
	}
}
