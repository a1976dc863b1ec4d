package lease

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/reconcile"
	"github.com/planekit/planekit/reconcile/lease"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// These are the times of an election in tests. Two candidates do not lead at once unless a process
// is delayed by more than the difference between the first two, and the test is a single process:
// on a busy machine a second is too little.
const (
	leaseDuration = 6 * time.Second
	renewDeadline = 3 * time.Second
	retryPeriod   = 50 * time.Millisecond
)

// stage holds the candidates of a test and their leader.
type stage struct {
	t      *testing.T
	server *apiservertest.Server
	leads  chan string

	// mu guards the field below.
	mu      sync.Mutex
	leading map[string]bool
}

func newStage(t *testing.T) *stage {
	return &stage{t: t, server: apiservertest.Start(t, apiservertest.WithResources(kube.Resources()...)),
		leads: make(chan string, 100), leading: map[string]bool{}}
}

// lead is the work of all candidates.
func (s *stage) lead(ctx context.Context, who string) {
	s.mu.Lock()
	if len(s.leading) > 0 {
		s.t.Errorf("%s leads beside %v", who, s.leading)
	}
	s.leading[who] = true
	s.mu.Unlock()
	s.leads <- who
	<-ctx.Done()
	s.mu.Lock()
	delete(s.leading, who)
	s.mu.Unlock()
}

// next waits until a candidate leads, and returns it. A busy machine may take long.
func (s *stage) next() string {
	s.t.Helper()
	const patience = time.Minute
	select {
	case who := <-s.leads:
		return who
	case <-time.After(patience):
		s.t.Fatalf("nobody leads after %v", patience)
		return ""
	}
}

// candidate runs until stop is called or it is cut off from the server.
type candidate struct {
	stop func()
	*wire
}

// wire is a connection to the server that can be cut.
type wire struct {
	next http.RoundTripper
	cut  atomic.Bool
	// reads has a token once the lease was read over this wire.
	reads chan struct{}
}

func newWire(next http.RoundTripper) *wire { return &wire{next: next, reads: make(chan struct{}, 1)} }

func (w *wire) RoundTrip(r *http.Request) (*http.Response, error) {
	if w.cut.Load() {
		return nil, errors.New("the wire is cut")
	}
	answer, err := w.next.RoundTrip(r)
	if err == nil && r.Method == http.MethodGet && answer.StatusCode == http.StatusOK {
		select {
		case w.reads <- struct{}{}:
		default:
		}
	}
	return answer, err
}

// seen waits until a new candidate has seen the lease.
func (s *stage) seen(c candidate) {
	s.t.Helper()
	for range 2 { // at the second read it has processed the first
		select {
		case <-c.reads:
		case <-time.After(leaseDuration):
			s.t.Fatalf("the lease was not read for %v", leaseDuration)
		}
	}
}

func (s *stage) start(w *wire, run func(context.Context)) candidate {
	ctx, cancel := context.WithCancel(s.t.Context())
	var done sync.WaitGroup
	done.Go(func() { run(ctx) })
	stop := sync.OnceFunc(func() { cancel(); done.Wait() })
	s.t.Cleanup(stop)
	return candidate{stop, w}
}

func (s *stage) planekit(who string) candidate {
	w := newWire(s.server.Client().Transport)
	api, err := client.New(client.Config{Server: s.server.URL, Transport: w})
	if err != nil {
		s.t.Fatal(err)
	}
	shared, err := lease.New(lease.Config{Namespace: "default", Name: "the-one", Leases: typed.Leases(api)})
	if err != nil {
		s.t.Fatal(err)
	}
	elector, err := reconcile.NewElector(reconcile.ElectorConfig{
		Identity: who, Lease: shared, LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod,
		Work: func(ctx context.Context) error { s.lead(ctx, who); return nil },
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return s.start(w, func(ctx context.Context) {
		for ctx.Err() == nil {
			if err := elector.Run(ctx); err != nil {
				s.t.Error(err)
			}
		}
	})
}

func (s *stage) clientGo(who string) candidate {
	config, err := clientcmd.RESTConfigFromKubeConfig(s.server.Kubeconfig())
	if err != nil {
		s.t.Fatal(err)
	}
	w := newWire(nil)
	config.QPS = -1
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { w.next = next; return w })
	clients, err := kubernetes.NewForConfig(config)
	if err != nil {
		s.t.Fatal(err)
	}
	return s.start(w, func(ctx context.Context) {
		for ctx.Err() == nil {
			elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
				Lock: &resourcelock.LeaseLock{
					LeaseMeta: metav1.ObjectMeta{Namespace: "default", Name: "the-one"}, Client: clients.CoordinationV1(),
					LockConfig: resourcelock.ResourceLockConfig{Identity: who},
				},
				LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod, ReleaseOnCancel: true,
				Callbacks: leaderelection.LeaderCallbacks{
					OnStartedLeading: func(ctx context.Context) { s.lead(ctx, who) },
					OnStoppedLeading: func() {},
				},
			})
			if err != nil {
				s.t.Error(err)
				return
			}
			elector.Run(logr.NewContext(ctx, logr.Discard()))
		}
	})
}

// TestNeverBoth: with two candidates of each kind, the leader is stopped repeatedly.
func TestNeverBoth(t *testing.T) {
	s := newStage(t)
	kinds := map[string]func(string) candidate{"planekit": s.planekit, "client-go": s.clientGo}
	running := map[string]candidate{}
	led := map[string]int{}
	for kind, start := range kinds {
		for i := range 2 {
			who := fmt.Sprint(kind, " ", i)
			running[who] = start(who)
		}
	}
	for i := range 8 {
		who := s.next()
		kind := who[:len(who)-2]
		led[kind]++
		running[who].stop()
		delete(running, who)
		if i < 4 { // a new candidate of the kind that has led less
			if kind == "planekit" {
				kind = "client-go"
			} else {
				kind = "planekit"
			}
		}
		who = fmt.Sprint(kind, " ", i+2)
		running[who] = kinds[kind](who)
	}
	if led["planekit"] == 0 || led["client-go"] == 0 {
		t.Errorf("they led %v times", led)
	}
}

// TestRelease: when a leader is stopped, a candidate of the other kind leads long before the lease
// would expire.
func TestRelease(t *testing.T) {
	s := newStage(t)
	a := s.planekit("planekit")
	s.next()
	b := s.clientGo("client-go")
	for _, step := range []struct {
		leader candidate
		again  func()
		next   string
	}{
		{a, func() { a = s.planekit("planekit") }, "client-go"},
		{b, func() {}, "planekit"},
	} {
		step.leader.stop()
		start := time.Now()
		if who := s.next(); who != step.next || time.Since(start) > leaseDuration/2 {
			t.Errorf("%s leads after %v, want %s sooner than the lease lasts", who, time.Since(start), step.next)
		}
		step.again()
	}
	a.stop()
}

// TestCutOff: when a leader cannot renew, a candidate of the other kind leads once the lease has
// expired, after the leader has ended its work.
func TestCutOff(t *testing.T) {
	for _, order := range []string{"planekit, client-go", "client-go, planekit"} {
		t.Run(order, func(t *testing.T) {
			s := newStage(t)
			first, second := s.planekit, s.clientGo
			if order == "client-go, planekit" {
				first, second = second, first
			}
			a := first("first")
			s.next()
			s.seen(second("second"))
			a.cut.Store(true)
			start := time.Now()
			who := s.next()
			took := time.Since(start)
			if who != "second" || took < renewDeadline {
				t.Errorf("%s led after %v, want the second once a lease has lasted", who, took)
			}
		})
	}
}
