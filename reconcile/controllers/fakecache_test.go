package controllers_test

import (
	"context"
	"iter"
	"maps"
	"math/rand/v2"
	"reflect"
	"strconv"
	"sync"
	"time"

	"github.com/planekit/planekit/localcache"
)

// copyInto makes *into what *from is.
func copyInto(into, from any) {
	reflect.ValueOf(into).Elem().Set(reflect.ValueOf(from).Elem())
}

// cache is a local copy that lags behind its collection by a time of its own
// for every change, and that now and then misses changes and lists again.
type cache[T thing[T]] struct {
	// delivery is held while handlers are called.
	delivery sync.Mutex
	handlers map[*func(old, new T)]struct{}

	mu       sync.Mutex
	objects  map[string]T
	revision int
	moved    chan struct{}
	synced   chan struct{} // closed when there is a list
	caughtUp chan struct{} // closed when the handlers have seen it
}

// lag describes how a cache falls behind.
type lag struct {
	random *rand.Rand
	// A change shows up after at least least, and less than most later.
	least, most time.Duration
	// relist is the chance, of 100, that a change is seen through a new list only.
	relist int
	// twice is the chance, in percent, that handlers see a change twice.
	twice int
	// late is the longest delay between a change of the cache and its handlers.
	late time.Duration
	// unlisted is of a copy whose first list takes long; nil if there is none.
	unlisted *unlisted
}

// unlisted says that of the copies that are made one, by its number from one on, is
// empty for a time: its list fails.
type unlisted struct {
	number int
	until  time.Duration
	made   int
}

// hold waits for the delay of the handlers.
func (l lag) hold(ctx context.Context) {
	if l.late == 0 {
		return
	}
	select {
	case <-time.After(time.Duration(l.random.Int64N(int64(l.late)))):
	case <-ctx.Done():
	}
}

func (l lag) wait() time.Duration {
	if l.most == 0 {
		return l.least
	}
	return l.least + time.Duration(l.random.Int64N(int64(l.most)))
}

// follow starts a cache. Its goroutine ends with ctx.
func follow[T thing[T]](ctx context.Context, c *collection[T], l lag) *cache[T] {
	k := &cache[T]{handlers: map[*func(old, new T)]struct{}{}, objects: map[string]T{}, moved: make(chan struct{}), synced: make(chan struct{}), caughtUp: make(chan struct{})}
	if l.random == nil {
		l.random = rand.New(rand.NewPCG(1, 1))
	} else {
		l.random = rand.New(rand.NewPCG(l.random.Uint64(), 1))
	}
	if u := l.unlisted; u != nil {
		if u.made++; u.made == u.number {
			go k.listLate(ctx, c, l)
			return k
		}
	}
	c.api.mu.Lock()
	k.objects, k.revision = maps.Clone(c.objects), c.api.revision
	at := len(c.history)
	c.api.mu.Unlock()
	close(k.synced)
	close(k.caughtUp)
	go k.pump(ctx, c, l, at)
	return k
}

// listLate gets the first list when it is time. Handlers see it a minute later.
func (k *cache[T]) listLate(ctx context.Context, c *collection[T], l lag) {
	select {
	case <-time.After(l.unlisted.until):
	case <-ctx.Done():
		return
	}
	c.api.mu.Lock()
	all, revision, at := maps.Clone(c.objects), c.api.revision, len(c.history)
	c.api.mu.Unlock()
	tell := k.relist(all, revision)
	close(k.synced)
	select {
	case <-time.After(time.Minute):
	case <-ctx.Done():
		return
	}
	tell(1)
	close(k.caughtUp)
	k.pump(ctx, c, l, at)
}

func (k *cache[T]) pump(ctx context.Context, c *collection[T], l lag, at int) {
	for {
		c.api.mu.Lock()
		changed, n := c.changed, len(c.history)
		c.api.mu.Unlock()
		if at == n {
			select {
			case <-changed:
			case <-ctx.Done():
				return
			}
			continue
		}
		if wait := l.wait(); wait > 0 {
			select {
			case <-time.After(wait):
			case <-ctx.Done():
				return
			}
		}
		c.api.mu.Lock()
		next := c.history[at]
		at++
		if l.random.IntN(100) < l.relist {
			at = len(c.history)
			all, revision := maps.Clone(c.objects), c.api.revision
			c.api.mu.Unlock()
			tell := k.relist(all, revision)
			l.hold(ctx)
			tell(1)
			continue
		}
		c.api.mu.Unlock()
		tell := k.apply(next.key, next.new, next.revision)
		l.hold(ctx)
		times := 1
		if l.random.IntN(100) < l.twice {
			times = 2
		}
		tell(times)
	}
}

// relist replaces everything at once, as an informer does. Handlers are called when tell is called.
func (k *cache[T]) relist(all map[string]T, revision int) (tell func(times int)) {
	k.mu.Lock()
	before := k.objects
	k.objects = all
	k.advance(revision)
	k.mu.Unlock()
	return func(times int) {
		keys := maps.Clone(before)
		maps.Copy(keys, all)
		for key := range keys {
			if before[key] != all[key] {
				k.tell(before[key], all[key], times)
			}
		}
	}
}

func (k *cache[T]) tell(old, new T, times int) {
	k.delivery.Lock()
	defer k.delivery.Unlock()
	for range times {
		for h := range k.handlers {
			(*h)(old, new)
		}
	}
}

func (k *cache[T]) advance(revision int) {
	k.revision = max(k.revision, revision)
	close(k.moved)
	k.moved = make(chan struct{})
}

func (k *cache[T]) apply(key string, new T, revision int) (tell func(times int)) {
	var none T
	k.mu.Lock()
	defer k.mu.Unlock()
	// A copy of all: handlers still see what a relist replaced.
	k.objects = maps.Clone(k.objects)
	old := k.objects[key]
	if new == none {
		delete(k.objects, key)
	} else {
		k.objects[key] = new
	}
	k.advance(revision)
	if old == new {
		return func(int) {}
	}
	return func(times int) { k.tell(old, new, times) }
}

func (k *cache[T]) Get(key string) (T, bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	o, ok := k.objects[key]
	return o, ok
}

func (k *cache[T]) All() iter.Seq[T] {
	k.mu.Lock()
	defer k.mu.Unlock()
	return maps.Values(maps.Clone(k.objects))
}

func (k *cache[T]) Subscribe(handle func(old, new T)) localcache.Subscription {
	k.delivery.Lock()
	defer k.delivery.Unlock()
	var none T
	for o := range k.All() {
		handle(none, o)
	}
	k.handlers[&handle] = struct{}{}
	return localcache.Subscription{CaughtUp: k.caughtUp, Stop: func() {
		k.delivery.Lock()
		defer k.delivery.Unlock()
		delete(k.handlers, &handle)
	}}
}

func (k *cache[T]) Synced() <-chan struct{} { return k.synced }

func (k *cache[T]) WaitFor(ctx context.Context, revision string) error {
	want, err := strconv.Atoi(revision)
	if err != nil {
		return err
	}
	for {
		k.mu.Lock()
		have, moved := k.revision, k.moved
		k.mu.Unlock()
		if have >= want {
			return nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}
