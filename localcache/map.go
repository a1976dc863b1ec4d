package localcache

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"strconv"
	"sync"
)

// A Map is a [Cache] that its program fills, for tests and for components whose objects do not come
// from an API server. [NewMap], [NewMapFunc] and [NewUnsynced] make one.
//
// The goroutine that changes a Map calls its handlers before Put, Delete, Replace or Sync return,
// and the goroutine that subscribes calls the new handler. If another goroutine is calling a
// handler at that time, it makes the further calls, too. So in a program with one writer, every
// handler has received a change when the write returns.
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

// NewMapFunc returns a synced Map of objects. key returns the key of an object, which must depend
// only on the object.
func NewMapFunc[T any](key func(T) string, objects ...T) *Map[T] {
	m := NewUnsynced(key)
	for _, object := range objects {
		m.Put(object)
	}
	m.Sync()
	return m
}

// NewUnsynced returns an empty Map without its first list; see [Map.Sync].
func NewUnsynced[T any](key func(T) string) *Map[T] {
	return &Map[T]{
		key: key, synced: make(chan struct{}), objects: map[string]T{},
		advanced: make(chan struct{}), subscriptions: map[*subscription[T]]struct{}{},
	}
}

// Sync declares that the Map has all existing objects. Later calls do nothing.
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

// Put stores object and replaces the one with its key, if any. It returns the new revision of the
// Map.
func (m *Map[T]) Put(object T) (revision string) {
	return m.change(func() []change[T] {
		key := m.key(object)
		old := m.objects[key]
		m.objects[key] = object
		return []change[T]{{old: old, new: object}}
	})
}

// Delete removes the object of key, if any, and returns the new revision of the Map.
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

// Replace stores objects and removes all others in one step, as a cache does with a new list. It
// returns the new revision of the Map. It does not report an object that is equal to the stored
// one, so T must be comparable.
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

// change calls write, which changes the objects, and reports the changes that write returns.
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

// Revision returns the revision of the Map, which is the number of its changes.
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

// All returns an iterator over the objects that exist when the iteration begins.
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

// Synced returns a channel that Sync closes.
func (m *Map[T]) Synced() <-chan struct{} { return m.synced }

// WaitFor waits until the Map is synced and has reached revision, which must be a result of Put,
// Delete, Replace or Revision, or empty.
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

// Subscriptions returns the number of subscriptions.
func (m *Map[T]) Subscriptions() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return len(m.subscriptions)
}
