// Package informertest finds those who change objects that an informer shares.
//
//	config := informer.Config[*corev1.Pod]{...}
//	informertest.DetectMutations(t, &config)
//	pods, err := informer.New(config)
//
// It takes a print of every object before anybody else can see it and compares
// when the object is replaced and when the test ends, so it needs no goroutine
// of its own. A change that is undone in between is not seen; the race detector
// sees those.
package informertest

import (
	"fmt"
	"sync"
	"testing"

	"github.com/planekit/planekit/informer"
)

// DetectMutations has the test fail, naming the key, when somebody has changed
// an object that came out of the informer of config. It sets config.Transform,
// which must have been set before if it is to be, and config.Key must be set.
// Objects that have been deleted are watched to the end of the test, and so is
// whatever they refer to: an object must not refer to what may change, such as
// a lock. Call it before anything whose cleanup stops the informer.
func DetectMutations[T any](t testing.TB, config *informer.Config[T]) {
	d := &detector[T]{t: t, key: config.Key, before: config.Transform, prints: map[string]taken[T]{}}
	config.Transform = d.transform
	t.Cleanup(d.checkAll)
}

type detector[T any] struct {
	t      testing.TB
	key    func(T) string
	before func(T) T

	// mu guards prints, the last object of each key.
	mu     sync.Mutex
	prints map[string]taken[T]
}

type taken[T any] struct {
	object T
	print  uint64
	// text is what the object was, to show what has changed.
	text string
}

func (d *detector[T]) transform(object T) T {
	if d.before != nil {
		object = d.before(object)
	}
	key := d.key(object)
	d.mu.Lock()
	defer d.mu.Unlock()
	if last, ok := d.prints[key]; ok {
		d.check(key, last)
	}
	d.prints[key] = taken[T]{object, Print(object), fmt.Sprintf("%+v", object)}
	return object
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
		d.t.Errorf("%s was changed by somebody who shares it:\nit was %s\nand is %+v", key, last.text, last.object)
	}
}
