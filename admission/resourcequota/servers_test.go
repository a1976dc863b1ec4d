package resourcequota_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/resourcequota"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/informer"
	quotacontroller "github.com/planekit/planekit/reconcile/controllers/quota"
	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/memstore"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// late is a validator that is known only when its server runs.
type late struct {
	plugin atomic.Pointer[resourcequota.Plugin]
}

func (l *late) Validate(ctx context.Context, r *admission.Request) error {
	if p := l.plugin.Load(); p != nil {
		return p.Validate(ctx, r)
	}
	return nil
}

// startServer starts an API server on store whose admission has the plugin, with
// the copy that it needs, and returns a client of it.
func startServer(t *testing.T, store storage.Store) *client.Client {
	l := &late{}
	s := apiservertest.Start(t, apiservertest.WithResources(kube.Resources()...),
		apiservertest.WithConfig(func(c *apiserver.Config) { c.Store = store }),
		apiservertest.WithAdmission(admission.Chain{Validators: []admission.Validator{l}}))
	masters := &user.Info{Name: "admin", Groups: []string{user.Masters}}
	c, err := client.New(client.InProcess(client.TransportFunc(func(r *http.Request) (*http.Response, error) {
		return s.Transport(masters).RoundTrip(r)
	})))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	quotas := typed.ResourceQuotas(c)
	copied := newCache(t, quotas)
	index := informer.NewIndex(copied, func(q *corev1.ResourceQuota) []string { return []string{q.Namespace} })
	run(t, copied.Run)
	p, err := resourcequota.New(resourcequota.Config{
		ByNamespace: index,
		Lookup: func(ctx context.Context, namespace string) ([]*corev1.ResourceQuota, error) {
			found, _, err := quotas.List(ctx, namespace, metav1.ListOptions{})
			return found, err
		},
		Writer: quotas,
	})
	if err != nil {
		t.Fatal(err)
	}
	l.plugin.Store(p)
	return c
}

// runCache runs a cache until the test ends.
func runCache[T client.Object](t *testing.T, source informer.Source[T]) *informer.Informer[T] {
	made := newCache(t, source)
	run(t, made.Run)
	return made
}

func newCache[T client.Object](t *testing.T, source informer.Source[T]) *informer.Informer[T] {
	made, err := informer.For(source)
	if err != nil {
		t.Fatal(err)
	}
	return made
}

func run(t *testing.T, f func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// TestServers has two API servers on one store and hundreds of clients at a
// time: there are never more pods than the quota allows, and all that it allows.
// Then pods go, and the controller makes room for as many.
func TestServers(t *testing.T) {
	const limit, tries = 40, 300
	store := memstore.New()
	clients := []*client.Client{startServer(t, store), startServer(t, store)}
	quotas, pods := typed.ResourceQuotas(clients[0]), typed.Pods(clients[0])
	podCopy, quotaCopy := runCache(t, pods), runCache(t, quotas)
	controller, err := quotacontroller.New(quotacontroller.Config{
		ResourceQuotas: quotaCopy, Writer: quotas,
		Kinds: []quotacontroller.Kind{quotacontroller.NewKind[*corev1.Pod](schema.GroupResource{Resource: "pods"}, podCopy)},
	})
	if err != nil {
		t.Fatal(err)
	}
	run(t, controller.Run)
	var mu sync.Mutex
	live, most := map[string]bool{}, 0
	defer podCopy.Subscribe(func(_, pod *corev1.Pod) { // every change of the store, in order
		mu.Lock()
		defer mu.Unlock()
		if pod != nil {
			live[pod.Name] = true
			most = max(most, len(live))
		}
	}).Stop()

	if _, err := quotas.Create(t.Context(), &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "q"},
		Spec: corev1.ResourceQuotaSpec{Hard: amounts("pods", fmt.Sprint(limit), "requests.cpu", "1000")}}); err != nil {
		t.Fatal(err)
	}
	await(t, func() bool { q, ok := quotaCopy.Get("default/q"); return ok && len(q.Status.Used) == 2 })
	if got := race(t, clients, "first", tries); got != limit {
		t.Errorf("%d pods of %d were made, want %d", got, tries, limit)
	}
	none := int64(0)
	for i := range limit / 4 {
		list, _, err := pods.List(t.Context(), "default", metav1.ListOptions{})
		if err != nil || len(list) != limit-i {
			t.Fatalf("%d pods: %v", len(list), err)
		}
		mu.Lock()
		delete(live, list[0].Name)
		mu.Unlock()
		if err := pods.Delete(t.Context(), "default", list[0].Name, metav1.DeleteOptions{GracePeriodSeconds: &none}); err != nil {
			t.Fatal(err)
		}
	}
	await(t, func() bool {
		q, err := quotas.Get(t.Context(), "default", "q")
		used := q.Status.Used["pods"]
		return err == nil && used.Value() == limit-limit/4
	})
	if got := race(t, clients, "second", tries); got != limit/4 {
		t.Errorf("%d pods were made where %d had gone", got, limit/4)
	}
	q, err := quotas.Get(t.Context(), "default", "q")
	if err != nil {
		t.Fatal(err)
	}
	if used, cpu := q.Status.Used["pods"], q.Status.Used["requests.cpu"]; used.Value() != limit || cpu.MilliValue() != limit*100 {
		t.Errorf("used %s pods and %s cpu", &used, &cpu)
	}
	mu.Lock()
	defer mu.Unlock()
	if most > limit {
		t.Errorf("there were %d pods at a time", most)
	}
	t.Logf("%d requests, resource version of the quota %s", 2*tries, q.ResourceVersion)
}

// race creates n pods at a time by all clients, and counts those that were made.
func race(t *testing.T, clients []*client.Client, name string, n int) int {
	var made atomic.Int64
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			p := pod(amounts("cpu", "100m"), nil)
			p.Name = fmt.Sprintf("%s-%d", name, i)
			p.Spec.Containers[0].Image = "nginx"
			switch _, err := typed.Pods(clients[i%len(clients)]).Create(t.Context(), p); {
			case err == nil:
				made.Add(1)
			case !strings.Contains(err.Error(), "exceeded quota: q, requested: pods=1, used: pods=40, limited: pods=40"):
				t.Errorf("Create(%s) = %v, want nil or the quota q exceeded with 40 pods of 40 used", p.Name, err)
			}
		})
	}
	all.Wait()
	return int(made.Load())
}

// await waits for what servers and copies will bring about by themselves.
func await(t *testing.T, done func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(2 * time.Minute); !done(); <-tick.C {
		if time.Now().After(deadline) {
			t.Fatal("it did not happen")
		}
	}
}
