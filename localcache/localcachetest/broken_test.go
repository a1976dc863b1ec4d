package localcachetest

import (
	"context"
	"fmt"
	"iter"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/planekit/planekit/localcache"
)

// A recorder is a test that records its failures.
type recorder struct {
	ctx context.Context

	mu         sync.Mutex
	complaints []string // guarded by mu
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

// broken is a Map with some methods replaced.
type broken struct {
	*localcache.Map[*Object]
	get       func(key string) (*Object, bool)
	all       func() iter.Seq[*Object]
	subscribe func(handle func(old, new *Object)) localcache.Subscription
	synced    func() <-chan struct{}
	waitFor   func(ctx context.Context, revision string) error
}

func (b *broken) Get(key string) (*Object, bool) {
	if b.get != nil {
		return b.get(key)
	}
	return b.Map.Get(key)
}

func (b *broken) All() iter.Seq[*Object] {
	if b.all != nil {
		return b.all()
	}
	return b.Map.All()
}

func (b *broken) Subscribe(handle func(old, new *Object)) localcache.Subscription {
	if b.subscribe != nil {
		return b.subscribe(handle)
	}
	return b.Map.Subscribe(handle)
}

func (b *broken) Synced() <-chan struct{} {
	if b.synced != nil {
		return b.synced()
	}
	return b.Map.Synced()
}

func (b *broken) WaitFor(ctx context.Context, revision string) error {
	if b.waitFor != nil {
		return b.waitFor(ctx, revision)
	}
	return b.Map.WaitFor(ctx, revision)
}

// complaints returns the failures of a check of a Map that breakage has broken.
func complaints(t *testing.T, c check, breakage func(*broken, *Harness, context.Context)) (found []string) {
	synctest.Test(t, func(t *testing.T) {
		b := &broken{Map: localcache.NewUnsynced(func(o *Object) string { return o.Key })}
		h := Harness{
			Cache: b, ByGroup: localcache.Scan(b.Map, func(o *Object) []string { return []string{o.Group} }),
			Sync: b.Sync, Put: b.Put, Delete: b.Delete, Replace: func(objects ...*Object) { b.Replace(objects...) },
		}
		breakage(b, &h, t.Context())
		r := &recorder{ctx: t.Context()}
		done := make(chan struct{})
		go func() {
			defer close(done)
			c.run(newWorld(r, h))
		}()
		<-done
		found = r.complaints
	})
	return found
}

func TestSound(t *testing.T) {
	for _, c := range checks {
		if found := complaints(t, c, func(*broken, *Harness, context.Context) {}); len(found) > 0 {
			t.Errorf("%s complains of a sound cache: %q", c.name, found)
		}
	}
}

// TestBroken: the named check finds each broken cache, and every check is named.
func TestBroken(t *testing.T) {
	named := map[string]bool{}
	for _, b := range breakages {
		named[b.check] = true
		t.Run(b.name, func(t *testing.T) {
			for _, c := range checks {
				if c.name != b.check {
					continue
				}
				found := complaints(t, c, b.apply)
				if len(found) == 0 {
					t.Errorf("%s does not complain", c.name)
					return
				}
				t.Logf("%s: %s", c.name, found[0])
			}
		})
	}
	for _, c := range checks {
		if !named[c.name] {
			t.Errorf("no broken cache shows that %s can complain", c.name)
		}
		delete(named, c.name)
	}
	for name := range named {
		t.Errorf("there is no check %s", name)
	}
}
