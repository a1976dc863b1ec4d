package informer_test

import (
	"context"
	"strconv"
	"sync"
	"testing"

	"github.com/planekit/planekit/informer"
	"github.com/planekit/planekit/localcache/localcachetest"
)

// script is a source that a test controls.
type script struct {
	steps chan func(informer.Sink[*localcachetest.Object])

	mu sync.Mutex
	// The fields below are guarded by mu.
	revision int
	synced   bool
	objects  map[string]*localcachetest.Object
}

func (s *script) Sync(ctx context.Context, _ string, sink informer.Sink[*localcachetest.Object]) error {
	for {
		select {
		case step := <-s.steps:
			step(sink)
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// write changes the objects at a new revision and reports the change.
func (s *script) write(change func(revision string) (say func(informer.Sink[*localcachetest.Object]))) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.revision++
	revision := strconv.Itoa(s.revision)
	if say := change(revision); s.synced {
		s.steps <- say
	}
	return revision
}

func (s *script) put(o *localcachetest.Object) string {
	return s.write(func(revision string) func(informer.Sink[*localcachetest.Object]) {
		o.Revision = revision
		s.objects[o.Key] = o
		return func(sink informer.Sink[*localcachetest.Object]) { sink.Put(revision, o) }
	})
}

func (s *script) remove(key string) string {
	return s.write(func(revision string) func(informer.Sink[*localcachetest.Object]) {
		o := s.objects[key]
		delete(s.objects, key)
		return func(sink informer.Sink[*localcachetest.Object]) { sink.Remove(revision, o) }
	})
}

func (s *script) replace(objects ...*localcachetest.Object) {
	s.write(func(revision string) func(informer.Sink[*localcachetest.Object]) {
		s.objects = map[string]*localcachetest.Object{}
		for _, o := range objects {
			if o.Revision == "" {
				o.Revision = revision
			}
			s.objects[o.Key] = o
		}
		return func(sink informer.Sink[*localcachetest.Object]) { sink.Replace(revision, objects) }
	})
}

func (s *script) sync() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.synced = true
	revision := strconv.Itoa(s.revision)
	var list []*localcachetest.Object
	for _, o := range s.objects {
		list = append(list, o)
	}
	s.steps <- func(sink informer.Sink[*localcachetest.Object]) { sink.Replace(revision, list) }
}

// TestContract checks that an Informer fulfils the contract of package localcache.
func TestContract(t *testing.T) {
	localcachetest.Run(t, func(t *testing.T) localcachetest.Harness {
		s := &script{steps: make(chan func(informer.Sink[*localcachetest.Object]), 10_000), objects: map[string]*localcachetest.Object{}}
		inf, err := informer.New(informer.Config[*localcachetest.Object]{
			Source: s, Key: func(o *localcachetest.Object) string { return o.Key }, Revision: func(o *localcachetest.Object) string { return o.Revision },
		})
		if err != nil {
			t.Fatal(err)
		}
		groups := informer.NewIndex(inf, func(o *localcachetest.Object) []string { return []string{o.Group, o.Group} })
		ctx, cancel := context.WithCancel(context.Background())
		done := make(chan error, 1)
		go func() { done <- inf.Run(ctx) }()
		t.Cleanup(func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		})
		return localcachetest.Harness{Cache: inf, ByGroup: groups, Sync: s.sync, Put: s.put, Delete: s.remove, Replace: s.replace}
	})
}
