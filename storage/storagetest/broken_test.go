package storagetest

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/memstore"
)

// A recorder is a test that writes its failures down.
type recorder struct {
	ctx context.Context

	mu         sync.Mutex
	complaints []string
}

func (r *recorder) Helper()                  {}
func (r *recorder) Context() context.Context { return r.ctx }
func (r *recorder) Logf(string, ...any)      {}

func (r *recorder) Errorf(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.complaints = append(r.complaints, fmt.Sprintf(format, args...))
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Errorf(format, args...)
	runtime.Goexit()
}

// complaints runs every check against stores of newStore, in a bubble, where
// waiting for what never comes takes no time. It returns the checks that failed.
func complaints(t *testing.T, newStore func() storage.Store, lacks ...Feature) map[string][]string {
	found := map[string][]string{}
	for _, c := range (options{lacks: lacks}).checks() {
		synctest.Test(t, func(t *testing.T) {
			r := &recorder{ctx: t.Context()}
			done := make(chan struct{})
			go func() {
				defer close(done)
				c.on(r, newStore(), lacks...)
			}()
			<-done
			if len(r.complaints) > 0 {
				found[c.name] = r.complaints
			}
		})
	}
	return found
}

// A broken store is a sound one with some methods replaced.
type broken struct {
	*memstore.Store
	get    func(context.Context, storage.Key, storage.Revision) (storage.Record, error)
	now    func(context.Context) (storage.Revision, error)
	list   func(context.Context, storage.Key, storage.ListOptions) (storage.Page, error)
	commit func(context.Context, storage.Change) (storage.Record, error)
	watch  func(context.Context, storage.Key, storage.Revision) (storage.Watcher, error)
	events func([]storage.Event) []storage.Event
}

func (b *broken) Get(ctx context.Context, key storage.Key, at storage.Revision) (storage.Record, error) {
	if b.get != nil {
		return b.get(ctx, key, at)
	}
	return b.Store.Get(ctx, key, at)
}

func (b *broken) Revision(ctx context.Context) (storage.Revision, error) {
	if b.now != nil {
		return b.now(ctx)
	}
	return b.Store.Revision(ctx)
}

func (b *broken) List(ctx context.Context, prefix storage.Key, o storage.ListOptions) (storage.Page, error) {
	if b.list != nil {
		return b.list(ctx, prefix, o)
	}
	return b.Store.List(ctx, prefix, o)
}

func (b *broken) Commit(ctx context.Context, c storage.Change) (storage.Record, error) {
	if b.commit != nil {
		return b.commit(ctx, c)
	}
	return b.Store.Commit(ctx, c)
}

func (b *broken) Watch(ctx context.Context, prefix storage.Key, after storage.Revision) (storage.Watcher, error) {
	watch := b.Store.Watch
	if b.watch != nil {
		watch = b.watch
	}
	w, err := watch(ctx, prefix, after)
	if err != nil || b.events == nil {
		return w, err
	}
	return &brokenWatcher{Watcher: w, events: b.events}, nil
}

type brokenWatcher struct {
	storage.Watcher
	events func([]storage.Event) []storage.Event
}

func (w *brokenWatcher) RequestProgress(ctx context.Context) error {
	return storage.RequestProgress(ctx, w.Watcher)
}

func (w *brokenWatcher) Next(ctx context.Context) ([]storage.Event, error) {
	for {
		events, err := w.Watcher.Next(ctx)
		if events = w.events(events); len(events) > 0 || err != nil {
			return events, err
		}
	}
}

// A sound store, and the wrappers that keep their promises, pass.
func TestSoundStoresPass(t *testing.T) {
	for name, newStore := range map[string]func() storage.Store{
		"memstore":             func() storage.Store { return memstore.New() },
		"broken":               func() storage.Store { return &broken{Store: memstore.New()} },
		"no more than a store": func() storage.Store { return struct{ storage.Store }{memstore.New()} },
		"events": func() storage.Store {
			return &broken{Store: memstore.New(), events: slices.Clone[[]storage.Event]}
		},
	} {
		if found := complaints(t, newStore); len(found) > 0 {
			t.Errorf("%s: the checks of a sound store complain: %v, want nothing", name, found)
		}
	}
}

// Every broken store must be found out, by the check made for it among others.
func TestBrokenStoresFail(t *testing.T) {
	for name, test := range brokenStores() {
		t.Run(name, func(t *testing.T) {
			found := complaints(t, func() storage.Store {
				b := &broken{Store: memstore.New()}
				test.breaks(b)
				return b
			})
			for _, check := range strings.Split(test.checks, ", ") {
				if found[check] == nil {
					t.Errorf("check %q did not complain; others: %v", check, found)
				}
			}
		})
	}
}
