package plane_test

import (
	"context"
	"errors"
	"net"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/client/kubeconfig"
	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/stack"
	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/memstore"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// guarded is a store that notes calls after its end.
type guarded struct {
	storage.Store
	closed, late atomic.Bool
}

func (g *guarded) note() {
	if g.closed.Load() {
		g.late.Store(true)
	}
}

func (g *guarded) Commit(ctx context.Context, c storage.Change) (storage.Record, error) {
	g.note()
	return g.Store.Commit(ctx, c)
}

func (g *guarded) Watch(ctx context.Context, prefix storage.Key, after storage.Revision) (storage.Watcher, error) {
	g.note()
	w, err := g.Store.Watch(ctx, prefix, after)
	return &guardedWatcher{w, g}, err
}

type guardedWatcher struct {
	storage.Watcher
	g *guarded
}

func (w *guardedWatcher) Next(ctx context.Context) ([]storage.Event, error) {
	events, err := w.Watcher.Next(ctx)
	w.g.note() // the watch has ended before its store has
	return events, err
}

// TestOpenStore: Run opens the store before it serves, with the directory of the Config, and closes it after
// everything that uses it. Certificates stay in the directory, so that a kubeconfig is good for the next run.
func TestOpenStore(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	file := filepath.Join(t.TempDir(), "admin.kubeconfig")
	store := &guarded{Store: memstore.New()}
	address := "127.0.0.1:0"
	for run := range 2 {
		listener, err := net.Listen("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		address = listener.Addr().String()
		var p *plane.Plane
		open := func(_ context.Context, opened string, s *stack.Stack, _ logr.Logger) (storage.Store, error) {
			if opened != dir {
				t.Errorf("the store is opened in %q, want %q", opened, dir)
			}
			if p.Server == nil {
				t.Error("the store is opened before the server is made")
			}
			store.closed.Store(false)
			s.OnStop("store", func() error { store.closed.Store(true); return nil })
			return store, nil
		}
		if p, err = plane.New(plane.Config{Dir: dir, OpenStore: open, Listener: listener}); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		if _, err := typed.Nodes(p.Client()).Get(ctx, "", "n"); err == nil || !strings.Contains(err.Error(), "Run opens it") {
			t.Errorf("a read before Run: %v, want an error that says that Run opens the store", err)
		}
		cancel()
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx) }()
		select {
		case <-p.Ready():
		case err := <-ended:
			t.Fatal(err)
		}
		if run == 0 {
			if err := p.Kubeconfig().Write(file); err != nil {
				t.Fatal(err)
			}
		}
		api, err := kubeconfig.Connect(file)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := typed.Namespaces(api).List(t.Context(), "", metav1.ListOptions{}); err != nil {
			t.Errorf("run %d, with the kubeconfig of the first: %v", run, err)
		}
		api.Close()
		stop()
		if err := <-ended; err != nil {
			t.Errorf("run %d: %v", run, err)
		}
		if !store.closed.Load() || store.late.Load() {
			t.Errorf("run %d: the store is closed: %v, used after that: %v, want true and false", run, store.closed.Load(), store.late.Load())
		}
	}
}

// TestOpenStoreErrors: a Config that would lose objects is refused, and a store that does not open ends Run.
func TestOpenStoreErrors(t *testing.T) {
	failed := errors.New("disk on fire")
	open := func(context.Context, string, *stack.Stack, logr.Logger) (storage.Store, error) { return nil, failed }
	for _, test := range []struct {
		config plane.Config
		want   string
	}{
		{plane.Config{Store: memstore.New(), OpenStore: open}, "Store and OpenStore exclude each other"},
		{plane.Config{Dir: t.TempDir()}, "Dir without Store and OpenStore"},
		{plane.Config{OpenStore: open, Dir: "/dev/null/dir"}, "/dev/null"},
	} {
		if _, err := plane.New(test.config); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("New(%v) = %v, want %q", test.config.Dir, err, test.want)
		}
	}
	p, err := plane.New(plane.Config{OpenStore: open})
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Run(t.Context()); !errors.Is(err, failed) || !strings.HasPrefix(err.Error(), "open the store: ") {
		t.Errorf("Run = %v, want %v", err, failed)
	}
	select {
	case <-p.Ready():
		t.Error("the plane is ready without a store")
	default:
	}
	if listener, err := net.Listen("tcp", p.Addr().String()); err != nil {
		t.Errorf("the listener is not closed: %v", err)
	} else {
		listener.Close()
	}
}
