package informer

import (
	"context"
	"errors"
	"hash/maphash"
	"iter"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
)

// Config says what to copy. Source, Key and Revision must be set.
type Config[T any] struct {
	Source Source[T]
	// Key names an object: "namespace/name", or "name". It must always give the
	// same answer for the same object.
	Key func(T) string
	// Revision is the revision at which the object was last changed.
	Revision func(T) string
	// AppendKey, if set, appends to b what Key returns, so that no string need be
	// made to find an object that is known.
	AppendKey func(b []byte, object T) []byte
	// Transform, if set, is given every object before it is stored and returns
	// what is to be stored in its place, with the same key, revision and UID: the
	// object without parts that nobody reads, or one that shares what is equal
	// with others. It may change the object, which nobody else has seen yet.
	Transform func(T) T
	// UID tells an object from a later one of the same key. When set, an object
	// that replaces another is reported as a deletion and an addition; when nil,
	// as a change.
	UID func(T) string
	// Compare orders revisions. Nil takes them for decimal numbers, the empty
	// string being the smallest.
	Compare func(a, b string) int
	// RetryMin and RetryMax bound the wait between connections; before jitter,
	// which adds up to as much again. Zero is 0.8 s and 30 s.
	RetryMin, RetryMax time.Duration
	// Log is told of lost connections. The zero Logger is silent.
	Log logr.Logger
}

// firstRetry bounds the wait before the first attempt to connect again: most
// connections end because a server restarts or closes watches on schedule.
const firstRetry = 100 * time.Millisecond

// Informer is a local copy of one resource type. Its methods are safe for
// concurrent use.
type Informer[T any] struct {
	config Config[T]
	seed   maphash.Seed
	// pointers tells that T is a pointer type.
	pointers bool
	synced   chan struct{}
	done     chan struct{}

	current atomic.Pointer[published[T]]
	log     *log[T]
	writer  *writer[T]
	// syncedAt is how many events the log had when the first full list had been
	// stored; the largest number before.
	syncedAt atomic.Uint64
	// bounded are the handlers that may be cut off.
	bounded atomic.Pointer[[]*Handle[T]]
	// indexes belong to the writer once Run has begun.
	indexes []indexer[T]

	// waiting counts waiters, so that the writer takes no lock when it is zero.
	waiting atomic.Int32
	// mu guards the fields below.
	mu       sync.Mutex
	state    state
	handlers map[*Handle[T]]struct{}
	waiters  map[*waiter]struct{}
}

type state int

const (
	idle state = iota
	running
	stopped
)

// New checks config and returns an empty Informer. It starts nothing.
func New[T any](config Config[T]) (*Informer[T], error) {
	switch {
	case config.Source == nil:
		return nil, errors.New("informer: no Source")
	case config.Key == nil:
		return nil, errors.New("informer: no Key")
	case config.Revision == nil:
		return nil, errors.New("informer: no Revision")
	case config.RetryMin < 0:
		return nil, errors.New("informer: negative RetryMin")
	case config.RetryMax < 0:
		return nil, errors.New("informer: negative RetryMax")
	}
	if config.RetryMin == 0 {
		config.RetryMin = 800 * time.Millisecond
	}
	if config.RetryMax == 0 {
		config.RetryMax = max(30*time.Second, config.RetryMin)
	}
	if config.RetryMax < config.RetryMin {
		return nil, errors.New("informer: RetryMax is less than RetryMin")
	}
	if config.Compare == nil {
		config.Compare = compareDecimal
	}
	inf := &Informer[T]{
		config:   config,
		seed:     maphash.MakeSeed(),
		pointers: reflect.TypeFor[T]().Kind() == reflect.Pointer,
		synced:   make(chan struct{}),
		done:     make(chan struct{}),
		log:      newLog[T](),
		handlers: make(map[*Handle[T]]struct{}),
		waiters:  make(map[*waiter]struct{}),
	}
	inf.writer = newWriter(inf)
	inf.syncedAt.Store(math.MaxUint64)
	inf.current.Store(&published[T]{new(root[T]), inf.log.end})
	return inf, nil
}

func (inf *Informer[T]) root() *root[T] { return inf.current.Load().root }

func (inf *Informer[T]) now() (*root[T], position[T]) {
	current := inf.current.Load()
	return current.root, current.end
}

func (inf *Informer[T]) hash(key string) uint64 { return maphash.String(inf.seed, key) }

// compareDecimal compares numbers of any length without parsing them.
func compareDecimal(a, b string) int {
	if len(a) > 0 && len(b) > 0 && a[0] != '0' && b[0] != '0' {
		if len(a) != len(b) {
			return len(a) - len(b)
		}
		return strings.Compare(a, b)
	}
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

// Run keeps the copy up to date until ctx is done, then stops all handlers,
// waits for the calls they are in, and returns nil. It is called once.
func (inf *Informer[T]) Run(ctx context.Context) error {
	inf.mu.Lock()
	if inf.state != idle {
		inf.mu.Unlock()
		return errors.New("informer: Run called twice")
	}
	inf.state = running
	for h := range inf.handlers {
		h.start()
	}
	inf.mu.Unlock()
	written := make(chan struct{})
	go func() {
		defer close(written)
		inf.writer.run()
	}()
	defer inf.shutdown()
	defer func() {
		inf.writer.close()
		<-written
		inf.writer.stopTidying()
	}()

	for failures := 0; ; failures++ {
		start := time.Now()
		err := inf.config.Source.Sync(ctx, inf.root().revision, inf.writer)
		inf.writer.finish()
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(start) >= inf.config.RetryMax {
			failures = 0
		}
		wait := inf.retryAfter(failures)
		inf.logFailure(err, failures, wait)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// logFailure keeps the first, ordinary end of a connection out of what
// operators act on.
func (inf *Informer[T]) logFailure(err error, failures int, wait time.Duration) {
	if failures == 0 {
		inf.config.Log.V(1).Info("source ended", "cause", err, "retryAfter", wait)
		return
	}
	inf.config.Log.Error(err, "source failed", "failures", failures+1, "retryAfter", wait)
}

func (inf *Informer[T]) retryAfter(failures int) time.Duration {
	if failures == 0 {
		return rand.N(min(firstRetry, inf.config.RetryMin) + 1)
	}
	wait := inf.config.RetryMin
	for i := 1; i < failures && wait < inf.config.RetryMax; i++ {
		wait *= 2
	}
	wait = min(wait, inf.config.RetryMax)
	return wait + rand.N(wait)
}

func (inf *Informer[T]) shutdown() {
	inf.mu.Lock()
	inf.state = stopped
	handlers := inf.handlers
	inf.handlers = nil
	inf.mu.Unlock()
	close(inf.done)
	for h := range handlers {
		h.halt()
	}
	for h := range handlers {
		<-h.done
	}
}

// Snapshot returns the current view.
func (inf *Informer[T]) Snapshot() View[T] { return View[T]{inf.root(), inf.seed} }

// Get returns the object of key in the current view.
func (inf *Informer[T]) Get(key string) (T, bool) { return inf.Snapshot().Get(key) }

// All returns the objects of the view that is current when the iteration
// begins, in no particular order.
func (inf *Informer[T]) All() iter.Seq[T] {
	return func(yield func(T) bool) { inf.Snapshot().All()(yield) }
}

// Synced is closed when the first full list has been stored: never, if Run ends
// before.
func (inf *Informer[T]) Synced() <-chan struct{} { return inf.synced }
