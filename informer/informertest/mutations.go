// Package informertest finds code that changes objects which an informer shares.
//
//	pods, err := informer.For(informertest.DetectMutations(t, source, localcache.KeyOf[*corev1.Pod]))
//
// It takes a print of every object before other code can see it and compares when the
// object is replaced and when the test ends, so that it needs no goroutine. A change
// that is undone in between is not seen; the race detector sees those.
package informertest

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/planekit/planekit/informer"
)

// DetectMutations returns source for an informer. The test fails, naming the key, if an
// object that came from it was changed. Objects that have been deleted are watched to
// the end of the test, and so is whatever they refer to: an object must not refer to
// what may change, such as a lock. Call it before anything whose cleanup stops the
// informer.
func DetectMutations[T any](t testing.TB, source informer.Source[T], key func(T) string) informer.Source[T] {
	d := &detector[T]{t: t, source: source, key: key, prints: map[string]taken[T]{}}
	t.Cleanup(d.checkAll)
	return d
}

type detector[T any] struct {
	t      testing.TB
	source informer.Source[T]
	key    func(T) string

	mu     sync.Mutex
	prints map[string]taken[T] // the last object of each key; guarded by mu
}

type taken[T any] struct {
	object T
	print  uint64
	// text is what the object was, to show what has changed.
	text string
}

// Sync is that of the source, with a sink that takes prints.
func (d *detector[T]) Sync(ctx context.Context, from string, sink informer.Sink[T]) error {
	return d.source.Sync(ctx, from, printing[T]{sink, sink.(informer.ListSink[T]), d})
}

// printing is the sink of an informer that takes a print of each object.
type printing[T any] struct {
	single informer.Sink[T]
	informer.ListSink[T]
	d *detector[T]
}

func (p printing[T]) Replace(revision string, objects []T) {
	for _, object := range objects {
		p.d.take(object)
	}
	p.single.Replace(revision, objects)
}

func (p printing[T]) Put(revision string, object T) {
	p.d.take(object)
	p.single.Put(revision, object)
}

func (p printing[T]) Item(object T) {
	p.d.take(object)
	p.ListSink.Item(object)
}

func (p printing[T]) Remove(revision string, object T) { p.single.Remove(revision, object) }
func (p printing[T]) Bookmark(revision string)         { p.single.Bookmark(revision) }

func (d *detector[T]) take(object T) {
	key := d.key(object)
	d.mu.Lock()
	defer d.mu.Unlock()
	if last, ok := d.prints[key]; ok {
		d.check(key, last)
	}
	d.prints[key] = taken[T]{object, Print(object), fmt.Sprintf("%+v", object)}
}

func (d *detector[T]) checkAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	for key, last := range d.prints {
		d.check(key, last)
	}
}

func (d *detector[T]) check(key string, last taken[T]) {
	d.t.Helper()
	if Print(last.object) != last.print {
		d.t.Errorf("%s was changed after it was shared:\nit was %s\nand is %+v", key, last.text, last.object)
	}
}
