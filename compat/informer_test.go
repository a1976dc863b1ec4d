package compat

import (
	"io"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"testing"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/memstore"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// change is what an informer's handler was told.
type change struct{ what, name, value string }

// tellTo makes a handler which passes everything on.
func tellTo(to chan<- change) cache.ResourceEventHandlerFuncs {
	tell := func(what string, object any) {
		if gone, ok := object.(cache.DeletedFinalStateUnknown); ok {
			object = gone.Obj
		}
		m := object.(*corev1.ConfigMap)
		to <- change{what, m.Name, m.Data["value"]}
	}
	return cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { tell("add", object) },
		UpdateFunc: func(_, object any) { tell("update", object) },
		DeleteFunc: func(object any) { tell("delete", object) },
	}
}

// TestInformers: a factory's informer fills by a streamed list, follows changes,
// and finds its way back when its watch is gone and forgotten.
func TestInformers(t *testing.T) {
	shows(t, "client-go", "informers of a SharedInformerFactory: sync by WatchList, events, listers, recovery by a new list where the server has compacted what was missed")
	store := memstore.New()
	config := serve(t, apiservertest.WithConfig(func(c *apiserver.Config) { c.Store = store }))
	clients := clientset(t, config)
	ctx, maps := bounded(t), clients.CoreV1().ConfigMaps("default")
	if _, err := maps.Create(ctx, configMap("first", map[string]string{"value": "1"}), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	cut := &cutter{}
	watched := *config
	watched.Wrap(cut.wrap)
	factory := informers.NewSharedInformerFactory(clientset(t, &watched), 0)
	informer := factory.Core().V1().ConfigMaps()
	seen := make(chan change, 100) // more than ever come
	if _, err := informer.Informer().AddEventHandler(tellTo(seen)); err != nil {
		t.Fatal(err)
	}
	factory.StartWithContext(ctx)
	defer factory.Shutdown()
	defer cut.release()
	if result := factory.WaitForCacheSyncWithContext(ctx); result.Err != nil {
		t.Fatal(result.Err)
	}
	if cut.count("sendInitialEvents=true") == 0 {
		t.Errorf("the first list was not streamed")
	}
	expect := func(want change) {
		t.Helper()
		if got := receive(t, seen); got != want {
			t.Errorf("told %v, want %v", got, want)
		}
	}
	expect(change{"add", "first", "1"})
	if _, err := maps.Update(ctx, configMap("first", map[string]string{"value": "2"}), metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	expect(change{"update", "first", "2"})

	// While nothing is being watched one goes and one comes, and the server
	// forgets how.
	cut.cut()
	if err := maps.Delete(ctx, "first", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	second, err := maps.Create(ctx, configMap("second", map[string]string{"value": "3"}), metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	compact(t, store, second.ResourceVersion)
	cut.release()
	got := []change{receive(t, seen), receive(t, seen)}
	slices.SortFunc(got, func(a, b change) int { return len(a.what) - len(b.what) })
	if want := []change{{"add", "second", "3"}, {"delete", "first", "2"}}; !slices.Equal(got, want) {
		t.Errorf("told %v, want %v", got, want)
	}
	if lists := cut.count("sendInitialEvents=true"); lists < 2 {
		t.Errorf("%d streamed lists; the watch was resumed as if nothing had been missed", lists)
	}
	list, err := informer.Lister().ConfigMaps("default").List(labels.Everything())
	if err != nil || len(list) != 1 || list[0].Name != "second" {
		t.Errorf("lister: %v %v", list, err)
	}
}

// compact makes the store forget what was before a resourceVersion.
func compact(t *testing.T, store *memstore.Store, version string) {
	t.Helper()
	at, err := strconv.ParseInt(version, 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	if err := store.Compact(t.Context(), storage.Revision(at)); err != nil {
		t.Fatal(err)
	}
}

// cutter is a client's transport whose watches can be cut and held back.
type cutter struct {
	mu   sync.Mutex
	open []io.Closer
	held chan struct{} // not nil: watches wait until it is closed
	seen []string
}

func (c *cutter) wrap(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.URL.Query().Get("watch") == "" {
			return next.RoundTrip(r)
		}
		c.mu.Lock()
		held := c.held
		for name, values := range r.URL.Query() {
			c.seen = append(c.seen, name+"="+values[0])
		}
		c.mu.Unlock()
		if held != nil {
			<-held
		}
		answer, err := next.RoundTrip(r)
		if err != nil {
			return nil, err
		}
		c.mu.Lock()
		defer c.mu.Unlock()
		c.open = append(c.open, answer.Body)
		return answer, nil
	})
}

// cut ends all watches and lets none begin.
func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = make(chan struct{})
	for _, watch := range c.open {
		watch.Close()
	}
	c.open = nil
}

func (c *cutter) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.held != nil {
		close(c.held)
		c.held = nil
	}
}

// count is how many watches had a parameter.
func (c *cutter) count(parameter string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, p := range c.seen {
		if p == parameter {
			n++
		}
	}
	return n
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
