package informer

import (
	"sync"
	"sync/atomic"
	"time"
)

// Event is one change of one object.
type Event[T any] struct {
	// Old is the very object that was New in the event before about the same key;
	// zero when Kind is Added. New is zero when Kind is Deleted.
	Old, New T
	Kind     Kind
	// Initial tells that the object existed when the handler began, or was part
	// of the first full list.
	Initial bool
	// Merged tells that more may have happened between Old and New than this: see
	// [Bounded] and [Coalescing].
	Merged bool
}

// Kind is what has happened to an object.
type Kind uint8

const (
	// Added is for an object that the handler does not know, or another one of
	// the same key.
	Added Kind = iota + 1
	Changed
	Deleted
	// Resynced is for an object that has not changed, told again because
	// Options.Resync asks for it.
	Resynced
)

// Options say how a handler is told. The zero Options tell it everything.
type Options struct {
	Delivery Delivery
	// Limit is how many changes may wait for a Bounded handler; zero or less is
	// 1024.
	Limit int
	// Resync is the time after which a handler is told again of every object as
	// Resynced; each round is up to a tenth longer, at random. Zero or less is
	// never. It reads the local copy and asks nothing of the source.
	Resync time.Duration
}

// Delivery is what becomes of changes that wait for a handler.
type Delivery uint8

const (
	// Lossless tells of every change, in order. What waits is in memory.
	Lossless Delivery = iota
	// Bounded tells of every change, in order, while no more than Options.Limit of
	// them wait. When more wait they are let go, and the handler is told, of each
	// key, of the difference that they made, until it has caught up. So whatever
	// the handler does, memory holds Limit changes and one earlier state of each
	// object.
	Bounded
	// Coalescing tells, of each key, of the difference between what the handler
	// was told last and what is there when it has time, in no particular order.
	// Nothing waits but one earlier state of each object. An object that came and
	// went in between is never told of; one that the handler knows and that was
	// replaced by another of the same key is told of as deleted and added.
	Coalescing
)

// Handle is a handler that follows an Informer.
type Handle[T any] struct {
	inf     *Informer[T]
	call    func(Event[T])
	options Options
	synced  chan struct{}
	done    chan struct{}
	stopped atomic.Bool
	// due is set when it is time to resync.
	due atomic.Bool
	// goroutine is the number of the goroutine that calls; zero before it runs.
	goroutine atomic.Uint64
	// started is guarded by inf.mu.
	started bool

	// These belong to the goroutine.
	timer   *time.Timer
	settled bool
	buffer  []event[T]

	// mu guards the fields below from the writer, who looks at those of Bounded
	// handlers: elsewhere they are the goroutine's own.
	mu    sync.Mutex
	place position[T]
	// lost is set, and place is not, once too much has waited.
	lost *lost[T]
}

// Follow has handle called for every object that exists, as Added, and then
// for what happens to them, as options say. Calls come one at a time from one
// goroutine, while Run runs; they never hold up the informer or each other.
func (inf *Informer[T]) Follow(handle func(Event[T]), options Options) *Handle[T] {
	h := &Handle[T]{inf: inf, call: handle, options: options, synced: make(chan struct{}), done: make(chan struct{})}
	if h.options.Limit <= 0 {
		h.options.Limit = 1024
	}
	inf.mu.Lock()
	defer inf.mu.Unlock()
	if inf.state == stopped {
		close(h.done)
		return h
	}
	inf.handlers[h] = struct{}{}
	inf.listBounded()
	if inf.state == running {
		h.start()
	}
	return h
}

// listBounded shows the writer the handlers that it must look at.
func (inf *Informer[T]) listBounded() {
	var bounded []*Handle[T]
	for h := range inf.handlers {
		if h.options.Delivery == Bounded {
			bounded = append(bounded, h)
		}
	}
	inf.bounded.Store(&bounded)
}

// Subscribe is Follow for a handler which is told of everything and needs no
// more than the objects: additions come as (zero, new), changes as (old, new),
// deletions as (old, zero). The returned stop is [Handle.Close].
func (inf *Informer[T]) Subscribe(handle func(old, new T)) (stop func()) {
	return inf.Follow(func(e Event[T]) { handle(e.Old, e.New) }, Options{}).Close
}

// Synced is closed when the handler has been told of the first full list and
// all those calls have returned: never, if Run ends or the handle is closed before.
func (h *Handle[T]) Synced() <-chan struct{} { return h.synced }

// Done is closed when the handler is not called any more.
func (h *Handle[T]) Done() <-chan struct{} { return h.done }

// Close ends the calls and waits for one that is under way. Called from within
// the handler itself it returns at once, and there is no further call. Two
// handlers must not close each other. Close may be called again.
func (h *Handle[T]) Close() {
	h.inf.mu.Lock()
	if !h.started && h.inf.state != stopped {
		if _, waiting := h.inf.handlers[h]; waiting {
			close(h.done)
		}
	}
	delete(h.inf.handlers, h)
	h.inf.listBounded()
	h.inf.mu.Unlock()
	h.halt()
	if h.goroutine.Load() != goroutineNumber() {
		<-h.done
	}
}

// halt lets the goroutine end after the call it is in.
func (h *Handle[T]) halt() {
	h.stopped.Store(true)
	h.inf.log.wake()
}

func (h *Handle[T]) start() {
	h.started = true
	go h.run()
}
