package eventratelimit_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/eventratelimit"
	"github.com/planekit/planekit/authn/user"
	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// event returns an event of kubelet about the named pod.
func event(namespace, who, pod string) *admission.Request {
	return &admission.Request{
		Operation: admission.Create, Namespace: namespace, User: &user.Info{Name: who},
		Resource: admission.GroupVersionResource{Version: "v1", Resource: "events"},
		Kind:     admission.GroupVersionKind{Version: "v1", Kind: "Event"},
		Object: &corev1.Event{
			Source:         corev1.EventSource{Component: "kubelet", Host: "n1"},
			InvolvedObject: corev1.ObjectReference{Kind: "Pod", Namespace: namespace, Name: pod, UID: "u", APIVersion: "v1"},
		},
	}
}

func newPlugin(t testing.TB, limits ...eventratelimit.Limit) *eventratelimit.Plugin {
	t.Helper()
	p, err := eventratelimit.New(eventratelimit.Config{Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func Example() {
	config, err := eventratelimit.ParseConfig([]byte(`
apiVersion: eventratelimit.admission.k8s.io/v1alpha1
kind: Configuration
limits:
- {type: Namespace, qps: 1, burst: 2}
`))
	if err != nil {
		fmt.Println(err)
		return
	}
	plugin, err := eventratelimit.New(config)
	if err != nil {
		fmt.Println(err)
		return
	}
	chain := admission.Chain{Validators: []admission.Validator{plugin}}
	for _, namespace := range []string{"shop", "shop", "shop", "office"} {
		fmt.Println(chain.Validate(context.Background(), event(namespace, "jane", "web")))
	}
	// Output:
	// <nil>
	// <nil>
	// Too many requests: limit reached on type Namespace for key shop
	// <nil>
}

// TestBuckets: after a first event, who else has to wait.
func TestBuckets(t *testing.T) {
	newer := event("a", "jane", "web")
	newer.Resource.Group, newer.Kind.Group = eventsv1.GroupName, eventsv1.GroupName
	newer.Object = &eventsv1.Event{
		ReportingController: "kubelet", ReportingInstance: "n1",
		Regarding: corev1.ObjectReference{Kind: "Pod", Namespace: "a", Name: "web", UID: "u", APIVersion: "v1"},
	}
	update := event("a", "jane", "web")
	update.Operation = admission.Update
	requests := map[string]*admission.Request{
		"the same": event("a", "jane", "web"), "newer": newer, "update": update, "another namespace": event("b", "jane", "web"),
		"another user": event("a", "joe", "web"), "another object": event("a", "jane", "db"),
	}
	all := []string{"the same", "newer", "update", "another namespace", "another user", "another object"}
	for typ, passes := range map[eventratelimit.Type][]string{
		eventratelimit.Server:          nil,
		eventratelimit.Namespace:       {"another namespace"},
		eventratelimit.User:            {"another user"},
		eventratelimit.SourceAndObject: {"another namespace", "another object"},
	} {
		for _, name := range all {
			p := newPlugin(t, eventratelimit.Limit{Type: typ, QPS: 1, Burst: 1})
			if err := p.Validate(t.Context(), event("a", "jane", "web")); err != nil {
				t.Fatal(err)
			}
			err := p.Validate(t.Context(), requests[name])
			want := false
			for _, n := range passes {
				want = want || n == name
			}
			if (err == nil) != want || err != nil && !apierrors.IsTooManyRequests(err) {
				t.Errorf("a limit of type %s, then %s: Validate = %v, want nil: %t, else TooManyRequests", typ, name, err, want)
			}
		}
	}
}

func TestWhatIsNotCounted(t *testing.T) {
	p := newPlugin(t, eventratelimit.Limit{Type: eventratelimit.Server, QPS: 1, Burst: 1})
	dry, pod, deletion, foreign := event("a", "jane", "web"), event("a", "jane", "web"), event("a", "jane", "web"), event("a", "jane", "web")
	dry.DryRun = true
	pod.Kind.Kind = "Pod"
	deletion.Operation = admission.Delete
	foreign.Kind.Group = "example.com"
	for range 3 {
		for _, r := range []*admission.Request{dry, pod, deletion, foreign} {
			if err := p.Validate(t.Context(), r); err != nil {
				t.Errorf("Validate(%s of %v, DryRun %t) = %v, want nil, since it does not count", r.Operation, r.Kind, r.DryRun, err)
			}
		}
	}
	if err := p.Validate(t.Context(), event("a", "jane", "web")); err != nil {
		t.Error(err)
	}
}

func TestAllLimitsAreNamed(t *testing.T) {
	p := newPlugin(t, eventratelimit.Limit{Type: eventratelimit.Server, QPS: 1, Burst: 1},
		eventratelimit.Limit{Type: eventratelimit.User, QPS: 1, Burst: 5}, eventratelimit.Limit{Type: eventratelimit.SourceAndObject, QPS: 1, Burst: 1})
	var err error
	for range 2 {
		err = p.Validate(t.Context(), event("a", "jane", "web"))
	}
	const want = "Too many requests: [limit reached on type Server for key , limit reached on type SourceAndObject for key kubeletn1Podawebuv1]"
	if err == nil || err.Error() != want {
		t.Errorf("the second Validate = %v, want %s", err, want)
	}
}

// TestModel compares with counting by hand, over random events.
func TestModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	synctest.Test(t, func(t *testing.T) {
		limit := eventratelimit.Limit{Type: eventratelimit.Namespace, QPS: 3, Burst: 7, CacheSize: 4}
		p := newPlugin(t, limit)
		type state struct {
			left float64
			at   time.Time
			used int
		}
		model := map[string]*state{}
		outcomes, forgotten := map[bool]int{}, 0
		for i := range 20_000 {
			// Mostly more than the limit lets through, with a rest now and then.
			time.Sleep(time.Duration(random.IntN(40)) * time.Millisecond)
			if random.IntN(100) == 0 {
				time.Sleep(time.Duration(random.IntN(10)) * time.Second)
			}
			name := fmt.Sprint("n", random.IntN(3)+i/100%4) // three at a time, six in all
			s := model[name]
			if s == nil {
				if len(model) == 4 {
					oldest := ""
					for n, s := range model {
						if oldest == "" || s.used < model[oldest].used {
							oldest = n
						}
					}
					delete(model, oldest)
					forgotten++
				}
				s = &state{left: 7, at: time.Now()}
				model[name] = s
			}
			s.left = min(7, s.left+3*time.Since(s.at).Seconds())
			s.at, s.used = time.Now(), i
			want := s.left >= 1
			outcomes[want]++
			if want {
				s.left--
			}
			if err := p.Validate(t.Context(), event(name, "jane", "web")); (err == nil) != want {
				t.Fatalf("event %d in %s: %v, want %v with %v left (seed %d)", i, name, err, want, s.left, seed)
			}
		}
		if outcomes[true] < 1000 || outcomes[false] < 1000 || forgotten < 50 {
			t.Errorf("passed or not: %v, %d forgotten: this tries too little", outcomes, forgotten)
		}
	})
}

// TestKeysAreKeptApart: parts that are the same when written one after another.
func TestKeysAreKeptApart(t *testing.T) {
	p := newPlugin(t, eventratelimit.Limit{Type: eventratelimit.SourceAndObject, QPS: 1, Burst: 1})
	for _, source := range []corev1.EventSource{{Component: "ab", Host: "c"}, {Component: "a", Host: "bc"}} {
		r := event("a", "jane", "web")
		r.Object.(*corev1.Event).Source = source
		if err := p.Validate(t.Context(), r); err != nil {
			t.Errorf("Validate(an event of the source %+v) = %v, want nil", source, err)
		}
	}
}

// TestConcurrent: no more than the burst, however many ask.
func TestConcurrent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := newPlugin(t, eventratelimit.Limit{Type: eventratelimit.User, QPS: 1, Burst: 50})
		var mu sync.Mutex
		var all sync.WaitGroup
		passed := 0
		for range 20 {
			all.Go(func() {
				for range 20 {
					if p.Validate(t.Context(), event("a", "jane", "web")) == nil {
						mu.Lock()
						passed++
						mu.Unlock()
					}
				}
			})
		}
		all.Wait()
		if passed != 50 {
			t.Errorf("%d passed", passed)
		}
	})
}
