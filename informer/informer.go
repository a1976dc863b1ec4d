package informer

import (
	"context"
	"errors"
	"hash/maphash"
	"math/rand/v2"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
)

// Config configures an Informer. Source, Key and Revision must be set.
type Config[T any] struct {
	Source Source[T]
	// Key returns the key of an object, "namespace/name" or "name". It must depend only on the
	// object.
	Key func(T) string
	// Revision returns the revision at which the object was last changed: a decimal number, or the
	// empty string, which is the smallest.
	Revision func(T) string
	// UID distinguishes an object from a later one with the same key. If it is set, an object that
	// replaces another is reported as a deletion and an addition; if it is nil, as an update.
	UID func(T) string
	// Log reports lost connections and lists that fail. The zero Logger is silent.
	Log logr.Logger
}

const (
	// firstRetry limits the delay of the first reconnection. It is short because most connections
	// end when a server restarts or closes watches on schedule.
	firstRetry = 100 * time.Millisecond
	// retryMin and retryMax limit the later delays, before jitter, which can double them.
	retryMin, retryMax = 800 * time.Millisecond, 30 * time.Second
)

// Informer is a cache of one resource. Its methods are safe for concurrent use.
type Informer[T any] struct {
	config Config[T]
	seed   maphash.Seed
	synced chan struct{}
	done   chan struct{} // closed when Run has ended

	current atomic.Pointer[published[T]]
	writer  *writer[T]
	// Only the writer uses indexes once Run has begun.
	indexes []indexer[T]

	mu sync.Mutex
	// The fields below are guarded by mu.
	state    state
	handlers map[*handler[T]]bool
}

type state int

const (
	idle state = iota
	running
	stopped
)

// New checks config and returns an empty Informer. It starts nothing. [For] is
// shorter for API objects.
func New[T any](config Config[T]) (*Informer[T], error) {
	switch {
	case config.Source == nil:
		return nil, errors.New("informer: no Source")
	case config.Key == nil:
		return nil, errors.New("informer: no Key")
	case config.Revision == nil:
		return nil, errors.New("informer: no Revision")
	}
	inf := &Informer[T]{
		config:   config,
		seed:     maphash.MakeSeed(),
		synced:   make(chan struct{}),
		done:     make(chan struct{}),
		handlers: map[*handler[T]]bool{},
	}
	inf.writer = newWriter(inf)
	inf.current.Store(&published[T]{new(root[T]), newEntry[T]()})
	return inf, nil
}

func (inf *Informer[T]) hash(key string) uint64 { return maphash.String(inf.seed, key) }

// compare compares revisions, which are numbers of any length, without parsing them.
func compare(a, b string) int {
	a, b = strings.TrimLeft(a, "0"), strings.TrimLeft(b, "0")
	if len(a) != len(b) {
		return len(a) - len(b)
	}
	return strings.Compare(a, b)
}

// Run keeps the cache up to date until ctx is done. Then it ends all subscriptions, waits for calls
// in progress, and returns nil. It must be called once.
func (inf *Informer[T]) Run(ctx context.Context) error {
	inf.mu.Lock()
	if inf.state != idle {
		inf.mu.Unlock()
		return errors.New("informer: Run called twice")
	}
	inf.state = running
	inf.mu.Unlock()
	defer inf.shutdown()
	var writing sync.WaitGroup
	writing.Go(inf.writer.run)
	defer writing.Wait()
	defer inf.writer.close()

	for failures := 0; ; failures++ {
		start := time.Now()
		err := inf.config.Source.Sync(ctx, inf.root().revision, inf.writer)
		inf.writer.finish()
		if ctx.Err() != nil {
			return nil
		}
		if time.Since(start) >= retryMax {
			failures = 0
		}
		wait := retryAfter(failures)
		inf.logFailure(err, failures, wait)
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait):
		}
	}
}

// logFailure logs the end of a connection with the type of the objects. The end of a connection
// that lasted is normal, so the first is logged only at V(1). Before the first list it is an error:
// the server may refuse the request (401, 403) or not serve the resource (404).
func (inf *Informer[T]) logFailure(err error, failures int, wait time.Duration) {
	log := inf.config.Log.WithValues("type", reflect.TypeFor[T]().String(), "retryAfter", wait)
	select {
	case <-inf.synced:
		if failures == 0 {
			log.V(1).Info("source ended", "cause", err)
			return
		}
	default:
	}
	log.Error(err, "source failed", "failures", failures+1)
}

func retryAfter(failures int) time.Duration {
	if failures == 0 {
		return rand.N(firstRetry + 1)
	}
	wait := retryMin
	for i := 1; i < failures && wait < retryMax; i++ {
		wait *= 2
	}
	wait = min(wait, retryMax)
	return wait + rand.N(wait)
}

// shutdown ends all subscriptions and waits for calls in progress.
func (inf *Informer[T]) shutdown() {
	inf.mu.Lock()
	inf.state = stopped
	handlers := inf.handlers
	inf.handlers = nil
	inf.mu.Unlock()
	close(inf.done)
	for h := range handlers {
		close(h.stop)
	}
	for h := range handlers {
		<-h.done
	}
}
