package compat

import (
	"context"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/memstore"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
)

// change is a call of an informer's handler.
type change struct{ what, name, value string }

// tellTo returns a handler that sends its calls to a channel.
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

// TestInformers: a factory's informer is filled by a streamed list, follows changes, and reports
// all objects again at each resync.
func TestInformers(t *testing.T) {
	shows(t, "client-go", "informers of a SharedInformerFactory: sync by WatchList, events, listers, resyncs")
	config := serve(t)
	clients := clientset(t, config)
	ctx, maps := bounded(t), clients.CoreV1().ConfigMaps("default")
	if _, err := maps.Create(ctx, configMap("first", map[string]string{"value": "1"}), metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}

	cut := &cutter{}
	watched := *config
	watched.Wrap(cut.wrap)
	const resync = time.Second // the minimum
	factory := informers.NewSharedInformerFactory(clientset(t, &watched), resync)
	informer := factory.Core().V1().ConfigMaps()
	seen := make(chan change, 100) // more than the test makes
	if _, err := informer.Informer().AddEventHandler(tellTo(seen)); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	factory.StartWithContext(ctx)
	defer factory.Shutdown()
	defer cancel()
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
	got := receive(t, seen)
	for got == (change{"update", "first", "1"}) { // of a resync before
		got = receive(t, seen)
	}
	if want := (change{"update", "first", "2"}); got != want {
		t.Errorf("told %v, want %v", got, want)
	}
	expect(change{"update", "first", "2"}) // of the resync
	list, err := informer.Lister().ConfigMaps("default").List(labels.Everything())
	if err != nil || len(list) != 1 || list[0].Data["value"] != "2" {
		t.Errorf("lister: %v %v", list, err)
	}
}

// compact makes the store forget revisions before a resourceVersion.
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

// cutter is a transport whose watches a test can cut and delay.
type cutter struct {
	mu   sync.Mutex
	open []*cuttable
	held chan struct{} // if not nil, watches wait until it is closed
	ends string        // if not empty, the seconds after which the server must end watches
	seen []string
}

func (c *cutter) wrap(next http.RoundTripper) http.RoundTripper {
	return client.TransportFunc(func(r *http.Request) (*http.Response, error) {
		if r.URL.Query().Get("watch") == "" {
			c.mu.Lock()
			c.seen = append(c.seen, "list")
			c.mu.Unlock()
			return next.RoundTrip(r)
		}
		c.mu.Lock()
		held := c.held
		for name, values := range r.URL.Query() {
			c.seen = append(c.seen, name+"="+values[0])
		}
		if c.ends != "" {
			r = r.Clone(r.Context())
			query := r.URL.Query()
			query.Set("timeoutSeconds", c.ends)
			r.URL.RawQuery = query.Encode()
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
		watch := &cuttable{ReadCloser: answer.Body}
		answer.Body = watch
		c.open = append(c.open, watch)
		return answer, nil
	})
}

// cuttable is the body of a watch.
type cuttable struct {
	io.ReadCloser
	cut atomic.Bool
}

// Read returns the end of the watch once it was cut, as if the server had ended it.
func (c *cuttable) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	if err != nil && c.cut.Load() {
		err = io.EOF
	}
	return n, err
}

// cut ends all watches and prevents new ones.
func (c *cutter) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.held = make(chan struct{})
	for _, watch := range c.open {
		watch.cut.Store(true)
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

// shorten makes the server end future watches after the given seconds.
func (c *cutter) shorten(seconds string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ends = seconds
}

// from returns the highest resourceVersion at which a watch has begun.
func (c *cutter) from() int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	var highest int64
	for _, parameter := range c.seen {
		if text, ok := strings.CutPrefix(parameter, "resourceVersion="); ok {
			if version, err := strconv.ParseInt(text, 10, 64); err == nil {
				highest = max(highest, version)
			}
		}
	}
	return highest
}

// count returns the number of watches with a parameter.
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

// lists returns the number of lists, streamed or in one piece.
func (c *cutter) lists() int { return c.count("list") + c.count("sendInitialEvents=true") }
