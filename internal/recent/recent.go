// Package recent caches the results of look-ups for a limited time.
//
//	lookups := recent.New[[]*corev1.LimitRange](30 * time.Second)
//	limits, err := lookups.Get(ctx, namespace, fetch)
//
// Concurrent calls with the same key share one look-up, which continues when the caller that began
// it gives up. Errors are not cached.
package recent

import (
	"context"
	"sync"
	"time"
)

// The values are those of Kubernetes' admission plugins.
const (
	most    = 10_000           // maximum number of cached keys
	patient = 10 * time.Second // timeout of one look-up
)

// Lookups caches results by key. It is safe for concurrent use.
type Lookups[T any] struct {
	ttl time.Duration

	mu    sync.Mutex
	known map[string]*lookup[T] // guarded by mu
}

// lookup is in progress until done is closed; then the other fields are set.
type lookup[T any] struct {
	done  chan struct{}
	value T
	err   error
	until time.Time
}

// New returns Lookups that cache results for ttl.
func New[T any](ttl time.Duration) *Lookups[T] {
	return &Lookups[T]{ttl: ttl, known: map[string]*lookup[T]{}}
}

// Get returns the cached result for key, or calls fetch.
func (l *Lookups[T]) Get(ctx context.Context, key string, fetch func(context.Context, string) (T, error)) (T, error) {
	for {
		at, mine := l.find(key)
		if mine {
			go l.fetch(context.WithoutCancel(ctx), key, at, fetch)
		}
		select {
		case <-at.done:
		case <-ctx.Done():
			var none T
			return none, ctx.Err()
		}
		if at.err != nil || mine || time.Now().Before(at.until) {
			return at.value, at.err
		}
		l.forget(key, at)
	}
}

func (l *Lookups[T]) find(key string) (at *lookup[T], mine bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if at, ok := l.known[key]; ok {
		return at, false
	}
	if len(l.known) >= most {
		l.drop()
	}
	at = &lookup[T]{done: make(chan struct{})}
	l.known[key] = at
	return at, true
}

func (l *Lookups[T]) fetch(ctx context.Context, key string, at *lookup[T], fetch func(context.Context, string) (T, error)) {
	ctx, cancel := context.WithTimeout(ctx, patient)
	defer cancel()
	at.value, at.err = fetch(ctx, key)
	at.until = time.Now().Add(l.ttl)
	if at.err != nil {
		l.forget(key, at)
	}
	close(at.done)
}

func (l *Lookups[T]) forget(key string, at *lookup[T]) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.known[key] == at {
		delete(l.known, key)
	}
}

// drop makes room by removing completed look-ups.
func (l *Lookups[T]) drop() {
	for key, at := range l.known {
		select {
		case <-at.done:
			delete(l.known, key)
		default:
		}
	}
}
