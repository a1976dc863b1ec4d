package localcache

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"strconv"
	"sync"
)

// A Map is a [Cache] that its program fills: for tests, and for a component whose
// objects do not come from an API server. Make one with [NewMap], [NewMapFunc] or
// [NewUnsynced].
//
// Handlers are called by the goroutine that changes the Map, before Put, Delete,
// Replace or Sync return, and by the one that subscribes. A goroutine that finds
// another one calling a handler leaves its changes to it. So a program with one
// writer knows that every handler was called with what was written.
type Map[T any] struct {
	key    func(T) string
	synced chan struct{}

	mu sync.Mutex
	// The fields below are guarded by mu.
	objects  map[string]T
	complete bool
	// revision counts the changes.
	revision uint64
	// advanced is closed and replaced when revision or complete change.
	advanced      chan struct{}
	subscriptions map[*subscription[T]]struct{}
}

// NewMap returns a synced Map of API objects.
func NewMap[T Object](objects ...T) *Map[T] { return NewMapFunc(KeyOf[T], objects...) }

// NewMapFunc returns a synced Map of objects whose keys are what key returns, which
// is always the same for the same object.
func NewMapFunc[T any](key func(T) string, objects ...T) *Map[T] {
	m := NewUnsynced(key)
	for _, object := range objects {
		m.Put(object)
	}
	m.Sync()
	return m
}

// NewUnsynced returns an empty Map without its first list: see [Map.Sync].
func NewUnsynced[T any](key func(T) string) *Map[T] {
	return &Map[T]{
		key: key, synced: make(chan struct{}), objects: map[string]T{},
		advanced: make(chan struct{}), subscriptions: map[*subscription[T]]struct{}{},
	}
}

// Sync declares that the Map has all objects that exist. Later calls do nothing.
func (m *Map[T]) Sync() {
	m.mu.Lock()
	if m.complete {
		m.mu.Unlock()
		return
	}
	m.complete = true
	m.advance()
	close(m.synced)
	m.report([]change[T]{{caughtUp: true}})
}

// Put stores object and replaces the one with its key, if any. It returns the
// revision of the Map after that.
func (m *Map[T]) Put(object T) (revision string) {
	return m.change(func() []change[T] {
		key := m.key(object)
		old := m.objects[key]
		m.objects[key] = object
		return []change[T]{{old: old, new: object}}
	})
}

// Delete removes the object of key, if any, and returns the revision of the Map
// after that.
func (m *Map[T]) Delete(key string) (revision string) {
	return m.change(func() []change[T] {
		old, ok := m.objects[key]
		if !ok {
			return nil
		}
		delete(m.objects, key)
		return []change[T]{{old: old}}
	})
}

// Replace stores objects and removes all others at once, as a cache does with a new
// list, and returns the revision of the Map after that. An object that is the one
// stored is not reported, and so T must be comparable.
func (m *Map[T]) Replace(objects ...T) (revision string) {
	return m.change(func() []change[T] {
		before := m.objects
		m.objects = make(map[string]T, len(objects))
		for _, object := range objects {
			m.objects[m.key(object)] = object
		}
		var changes []change[T]
		for key, old := range before {
			if _, ok := m.objects[key]; !ok {
				changes = append(changes, change[T]{old: old})
			}
		}
		for key, object := range m.objects {
			old, ok := before[key]
			if !ok || any(old) != any(object) {
				changes = append(changes, change[T]{old: old, new: object})
			}
		}
		return changes
	})
}

// change lets write change the objects and reports the changes that it returns.
func (m *Map[T]) change(write func() []change[T]) (revision string) {
	m.mu.Lock()
	changes := write()
	if len(changes) > 0 {
		m.revision++
		m.advance()
	}
	revision = m.revisionLocked()
	m.report(changes)
	return revision
}

// report queues changes for all handlers, unlocks mu and calls the handlers.
func (m *Map[T]) report(changes []change[T]) {
	subscriptions := make([]*subscription[T], 0, len(m.subscriptions))
	for s := range m.subscriptions {
		s.add(changes)
		subscriptions = append(subscriptions, s)
	}
	m.mu.Unlock()
	for _, s := range subscriptions {
		s.deliver()
	}
}

// advance wakes the callers of WaitFor.
func (m *Map[T]) advance() {
	close(m.advanced)
	m.advanced = make(chan struct{})
}

func (m *Map[T]) revisionLocked() string { return strconv.FormatUint(m.revision, 10) }

// Revision returns the revision of the Map: how often it has changed.
func (m *Map[T]) Revision() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.revisionLocked()
}

// Get returns the object of key.
func (m *Map[T]) Get(key string) (T, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	object, ok := m.objects[key]
	return object, ok
}

// All yields the objects that exist when the iteration begins.
func (m *Map[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		m.mu.Lock()
		objects := maps.Clone(m.objects)
		m.mu.Unlock()
		for _, object := range objects {
			if !yield(object) {
				return
			}
		}
	}
}

// Synced is closed by Sync.
func (m *Map[T]) Synced() <-chan struct{} { return m.synced }

// WaitFor waits until the Map is synced and has changed as often as revision says,
// which is one that Put, Delete, Replace or Revision returned, or is empty.
func (m *Map[T]) WaitFor(ctx context.Context, revision string) error {
	var want uint64
	if revision != "" {
		var err error
		if want, err = strconv.ParseUint(revision, 10, 64); err != nil {
			return fmt.Errorf("localcache: revision %q is not one of a Map", revision)
		}
	}
	for {
		m.mu.Lock()
		reached, advanced := m.complete && m.revision >= want, m.advanced
		m.mu.Unlock()
		if reached {
			return nil
		}
		select {
		case <-advanced:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// Subscribe calls handle for every object and then for every change.
func (m *Map[T]) Subscribe(handle func(old, new T)) Subscription {
	s := newSubscription(handle)
	m.mu.Lock()
	for _, object := range m.objects {
		s.add([]change[T]{{new: object}})
	}
	if m.complete {
		s.add([]change[T]{{caughtUp: true}})
	}
	m.subscriptions[s] = struct{}{}
	m.mu.Unlock()
	s.deliver()
	stop := func() {
		m.mu.Lock()
		delete(m.subscriptions, s)
		m.mu.Unlock()
		s.stop()
	}
	return Subscription{stop, s.caughtUp}
}

// Subscriptions returns how many subscriptions there are.
func (m *Map[T]) Subscriptions() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.subscriptions)
}
