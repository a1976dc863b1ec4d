// Package informertest finds code that changes objects which an informer shares.
//
//	pods, err := informer.For(informertest.DetectMutations(t, source, localcache.KeyOf[*corev1.Pod]))
//
// It computes a hash of every object before other code can see the object. It compares the hash
// when the object is replaced and when the test ends, so that it needs no goroutine. It does not
// detect a change that is undone in between; the race detector does.
package informertest

import (
	"context"
	"fmt"
	"sync"
	"testing"

	"github.com/planekit/planekit/informer"
)

// DetectMutations returns source for use in an informer. The test fails, with the key, if an object
// from it was changed. Deleted objects are checked at the end of the test, too. Everything that an
// object refers to is part of it, so an object must not refer to mutable values such as a lock.
// Call DetectMutations before anything whose cleanup stops the informer.
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
	prints map[string]taken[T] // the current object of each key; guarded by mu
}

type taken[T any] struct {
	object T
	print  uint64
	// text is the original object, to show the difference.
	text string
}

// Sync calls the source's Sync with a sink that computes the hash of each object.
func (d *detector[T]) Sync(ctx context.Context, from string, sink informer.Sink[T]) error {
	return d.source.Sync(ctx, from, printing[T]{sink, sink.(informer.ListSink[T]), d})
}

// printing is the sink of an informer that computes the hash of each object.
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
