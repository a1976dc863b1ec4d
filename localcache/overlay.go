package localcache

import (
	"context"
	"iter"
	"sync"
)

// An Overlay has the objects of two caches: an object of top hides the one of bottom with the same
// key. [NewOverlay] makes one.
//
// Readers see both caches as they are, so that All returns the objects of one moment of each.
// Handlers are called while Run runs. The goroutine that changes one of the caches calls them,
// unless another goroutine is calling them at that time.
type Overlay[T comparable] struct {
	top, bottom ReadSubscriber[T]
	key         func(T) string
	hidden      func(T) bool
	// reported holds what handlers have received.
	reported *Map[T]

	mu sync.Mutex
	// The fields below are guarded by mu.
	steps    []func()
	stepping bool
}

// NewOverlay returns an Overlay of two caches. key returns the key of an object in both caches.
// hidden reports whether an object of bottom is left out; nil means that none is.
func NewOverlay[T comparable](top, bottom ReadSubscriber[T], key func(T) string, hidden func(T) bool) *Overlay[T] {
	if hidden == nil {
		hidden = func(T) bool { return false }
	}
	return &Overlay[T]{top: top, bottom: bottom, key: key, hidden: hidden, reported: NewUnsynced(key)}
}

// Run reports the changes of both caches until ctx is done. It may be called once.
func (o *Overlay[T]) Run(ctx context.Context) error {
	handle := func(old, new T) {
		var none T
		if new == none {
			new = old
		}
		key := o.key(new)
		o.step(func() { o.report(key) })
	}
	top := o.top.Subscribe(handle)
	defer top.Stop()
	bottom := o.bottom.Subscribe(handle)
	defer bottom.Stop()
	for _, caughtUp := range []<-chan struct{}{top.CaughtUp, bottom.CaughtUp} {
		select {
		case <-caughtUp:
		case <-ctx.Done():
			return nil
		}
	}
	o.step(o.reported.Sync)
	<-ctx.Done()
	return nil
}

// step calls do after the earlier steps. If another goroutine, or a caller of this function's
// caller, is calling steps, it leaves do to it. So no mutex is held while handlers run.
func (o *Overlay[T]) step(do func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.steps = append(o.steps, do)
	if o.stepping {
		return
	}
	o.stepping = true
	defer func() { o.stepping = false }()
	for len(o.steps) > 0 {
		next := o.steps[0]
		o.steps = o.steps[1:]
		func() {
			o.mu.Unlock()
			defer o.mu.Lock()
			next()
		}()
	}
}

// report makes the reported object of key the one that readers see.
func (o *Overlay[T]) report(key string) {
	now, exists := o.Get(key)
	before, existed := o.reported.Get(key)
	switch {
	case exists && (!existed || now != before):
		o.reported.Put(now)
	case !exists && existed:
		o.reported.Delete(key)
	}
}

// Get returns the object of key.
func (o *Overlay[T]) Get(key string) (T, bool) {
	object, ok := o.top.Get(key)
	if ok {
		return object, true
	}
	if object, ok = o.bottom.Get(key); ok && !o.hidden(object) {
		return object, true
	}
	var none T
	return none, false
}

// All returns an iterator over the objects that exist when the iteration begins.
func (o *Overlay[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) {
		var objects []T
		above := map[string]bool{}
		for object := range o.top.All() {
			objects, above[o.key(object)] = append(objects, object), true
		}
		for object := range o.bottom.All() {
			if !above[o.key(object)] && !o.hidden(object) {
				objects = append(objects, object)
			}
		}
		for _, object := range objects {
			if !yield(object) {
				return
			}
		}
	}
}

// Synced returns a channel that is closed once both caches have synced and their objects were
// reported.
func (o *Overlay[T]) Synced() <-chan struct{} { return o.reported.Synced() }

// Subscribe calls handle for every object and then for every change.
func (o *Overlay[T]) Subscribe(handle func(old, new T)) Subscription {
	return o.reported.Subscribe(handle)
}
