package loadbalancer_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/service/loadbalancer"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// server is a cache whose writes are seen at once, and fail sometimes.
type server struct {
	*localcache.Map[*corev1.Service]
	mu     sync.Mutex
	fails  func() bool
	events []string
}

func newServer() *server { return &server{Map: localcache.NewMap[*corev1.Service]()} }

func (s *server) UpdateStatus(_ context.Context, object *corev1.Service) (*corev1.Service, error) {
	if s.fails != nil && s.fails() {
		return nil, errors.New("as asked")
	}
	s.Put(object)
	return object, nil
}

func (s *server) Event(service *corev1.Service, _, reason, message string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.events = append(s.events, service.Name+" "+reason+" "+message)
}

func (s *server) service(name string, change ...func(*corev1.Service)) {
	o := &corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.ServiceSpec{Type: corev1.ServiceTypeLoadBalancer}}
	if have, ok := s.Get("default/" + name); ok {
		o = have.DeepCopy()
	}
	for _, f := range change {
		f(o)
	}
	s.Put(o)
}

func (s *server) addresses(name string) string {
	o, ok := s.Get("default/" + name)
	if !ok {
		return ""
	}
	var all []string
	for _, i := range o.Status.LoadBalancer.Ingress {
		all = append(all, i.IP)
	}
	return strings.Join(all, " ")
}

// run runs a Balancer in a bubble.
func run(t *testing.T, s *server, class string, pool ...string) (stop func()) {
	t.Helper()
	var ranges []netip.Prefix
	for _, p := range pool {
		ranges = append(ranges, netip.MustParsePrefix(p))
	}
	b, err := loadbalancer.New(loadbalancer.Config{Services: s, Writer: s, Pool: ranges, Class: class, Events: s})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1) // one answer
	go func() { done <- b.Run(ctx) }()
	return func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

func TestAddresses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		stop := run(t, s, "", "10.65.230.0/30", "fd65:2300::/120")
		expect := func(want ...string) {
			t.Helper()
			synctest.Wait()
			for i := 0; i < len(want); i += 2 {
				if have := s.addresses(want[i]); have != want[i+1] {
					t.Errorf("%s has %q, want %q; events %q", want[i], have, want[i+1], s.events)
				}
			}
		}
		s.service("a")
		s.service("both", func(o *corev1.Service) {
			o.Spec.IPFamilies = []corev1.IPFamily{corev1.IPv6Protocol, corev1.IPv4Protocol}
		})
		expect("a", "10.65.230.1", "both", "fd65:2300:: 10.65.230.2")
		s.service("late")
		expect("late", "")
		if len(s.events) != 1 || !strings.Contains(s.events[0], "late AllocationFailed no IPv4 address: no address of the pool is free") {
			t.Errorf("events %q", s.events)
		}
		s.service("other", func(o *corev1.Service) { o.Spec.LoadBalancerClass = new("example.com/other") })
		expect("other", "")
		s.service("a", func(o *corev1.Service) { o.Spec.Type = corev1.ServiceTypeClusterIP })
		expect("a", "", "late", "10.65.230.1")
		s.service("asks", func(o *corev1.Service) { o.Spec.LoadBalancerIP = "10.65.230.1" })
		expect("asks", "")
		if last := s.events[len(s.events)-1]; last != "asks AddressInUse address 10.65.230.1 belongs to service default/late" {
			t.Errorf("events %q", s.events)
		}
		s.Delete("default/late")
		expect("asks", "10.65.230.1")
		stop()
		// A restart keeps all; of two with one address the older has it.
		s.service("young", func(o *corev1.Service) {
			o.CreationTimestamp = metav1.Unix(1000, 0)
			o.Status.LoadBalancer.Ingress = []corev1.LoadBalancerIngress{{IP: "10.65.230.1"}}
		})
		stop = run(t, s, "", "10.65.230.0/29", "fd65:2300::/120")
		expect("asks", "10.65.230.1", "both", "fd65:2300:: 10.65.230.2", "young", "10.65.230.3")
		stop()
	})
}

// No address is ever given twice, and in the end every service has one, whatever fails.
func TestRandomServices(t *testing.T) {
	for seed := range uint64(20) {
		synctest.Test(t, func(t *testing.T) {
			r, steps := rand.New(rand.NewPCG(seed, 3)), rand.New(rand.NewPCG(seed, 4))
			s := newServer()
			fails := true
			var mu sync.Mutex
			s.fails = func() bool { mu.Lock(); defer mu.Unlock(); return fails && r.IntN(3) == 0 }
			stop := run(t, s, "", "10.65.231.0/28")
			for range 200 {
				name := fmt.Sprint("s", steps.IntN(20))
				switch steps.IntN(4) {
				case 0:
					s.Delete("default/" + name)
				case 1:
					s.service(name, func(o *corev1.Service) { o.Spec.Type = corev1.ServiceTypeNodePort })
				default:
					s.service(name, func(o *corev1.Service) { o.Spec.Type = corev1.ServiceTypeLoadBalancer })
				}
				if steps.IntN(10) == 0 {
					stop()
					stop = run(t, s, "", "10.65.231.0/28")
				}
			}
			mu.Lock()
			fails = false
			mu.Unlock()
			time.Sleep(time.Minute)
			synctest.Wait()
			seen, wanted := map[string]string{}, 0
			for o := range s.All() {
				if o.Spec.Type != corev1.ServiceTypeLoadBalancer {
					if a := s.addresses(o.Name); a != "" {
						t.Errorf("seed %d: %s of type %s has %s", seed, o.Name, o.Spec.Type, a)
					}
					continue
				}
				wanted++
				if a := s.addresses(o.Name); a != "" {
					if seen[a] != "" {
						t.Errorf("seed %d: %s and %s have %s", seed, seen[a], o.Name, a)
					}
					seen[a] = o.Name
				}
			}
			if len(seen) != min(wanted, 14) {
				t.Errorf("seed %d: %d of %d services have addresses", seed, len(seen), wanted)
			}
			stop()
		})
	}
}

func TestConfig(t *testing.T) {
	s := newServer()
	for _, c := range []loadbalancer.Config{{}, {Services: s, Writer: s}, {Services: s, Writer: s, Pool: []netip.Prefix{netip.MustParsePrefix("10.0.0.1/8")}},
		{Services: s, Writer: s, Pool: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("10.1.0.0/16")}}} {
		if _, err := loadbalancer.New(c); err == nil {
			t.Errorf("no error about %+v", c)
		}
	}
}

// A service gets an address of the pool.
func Example() {
	s := newServer()
	b, err := loadbalancer.New(loadbalancer.Config{Services: s, Writer: s, Pool: []netip.Prefix{netip.MustParsePrefix("192.0.2.0/24")}})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1) // one answer
	go func() { done <- b.Run(ctx) }()
	given := make(chan string)
	s.Subscribe(func(_, new *corev1.Service) {
		if new != nil && len(new.Status.LoadBalancer.Ingress) > 0 {
			given <- new.Status.LoadBalancer.Ingress[0].IP
		}
	})
	s.service("web")
	fmt.Println(<-given)
	cancel()
	fmt.Println(<-done)
	// Output:
	// 192.0.2.1
	// <nil>
}

// TestOneAddressForTwo: of two services that ask for one address the first has it, and the second none until then. Another
// service coming and going repeats no event.
func TestOneAddressForTwo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		defer run(t, s, "", "10.65.232.0/28")()
		ask := func(address string) func(*corev1.Service) {
			return func(o *corev1.Service) { o.Spec.LoadBalancerIP = address }
		}
		expect := func(want string) {
			t.Helper()
			synctest.Wait()
			if have := s.addresses("a") + "," + s.addresses("b") + "," + s.addresses("c"); have != want {
				t.Errorf("%s, want %s; events %q", have, want, s.events)
			}
		}
		s.service("a", ask("10.65.232.5"))
		expect("10.65.232.5,,")
		s.service("b", ask("10.65.232.5"))
		s.service("c", ask("192.0.2.1"))
		expect("10.65.232.5,,")
		for range 3 {
			s.service("d")
			synctest.Wait()
			s.Delete("default/d")
			synctest.Wait()
		}
		if want := []string{"b AddressInUse address 10.65.232.5 belongs to service default/a", "c AllocationFailed spec.loadBalancerIP 192.0.2.1 is not in the pool"}; !slices.Equal(s.events, want) {
			t.Errorf("events %q, want %q", s.events, want)
		}
		s.service("c", ask("10.65.232.6"))
		expect("10.65.232.5,,10.65.232.6")
		s.service("c", ask("10.65.232.5")) // it keeps what it has
		expect("10.65.232.5,,10.65.232.6")
		s.Delete("default/a")
		expect(",10.65.232.5,10.65.232.6")
		s.service("b", ask("2001:db8::1"))
		expect(",10.65.232.5,10.65.232.6")
		s.service("b", ask("none"))
		expect(",10.65.232.5,10.65.232.6")
	})
}

// TestUsedUp: a large pool that is used up by many services, of which each that ends lets one other have its address.
func TestUsedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer()
		defer run(t, s, "", "10.66.0.0/20")()
		const free, services = 4094, 5000
		for i := range services {
			s.service(fmt.Sprint("s", i))
		}
		have := func() (n int) {
			synctest.Wait()
			for o := range s.All() {
				if len(o.Status.LoadBalancer.Ingress) > 0 {
					n++
				}
			}
			return n
		}
		if n := have(); n != free {
			t.Fatalf("%d have addresses, want %d", n, free)
		}
		for i := range 500 {
			s.Delete(fmt.Sprint("default/s", i))
		}
		if n := have(); n != free {
			t.Errorf("%d have addresses, want %d", n, free)
		}
		if len(s.events) > services {
			t.Errorf("%d events", len(s.events))
		}
	})
}
