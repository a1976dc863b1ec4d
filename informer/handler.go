package informer

import (
	"bytes"
	"runtime"
	"strconv"
	"sync/atomic"
)

// handler is one subscriber: a goroutine and a place in the log.
type handler[T any] struct {
	inf     *Informer[T]
	call    func(old, new T)
	stopped atomic.Bool
	// goroutine is the number of the goroutine that calls; zero before it runs.
	goroutine atomic.Uint64
	ended     chan struct{}
	// started is guarded by inf.mu.
	started bool
}

// Subscribe has handle called for every object that exists, as (zero, new),
// and then for every change: additions as (zero, new), changes as (old, new),
// deletions as (old, zero). Calls come one at a time, in order, from one
// goroutine, while Run runs; they never hold up the informer or each other.
//
// The returned stop ends the subscription and waits for a call that is under
// way. Called from within handle itself it returns at once, and handle is not
// called again. Two handlers must not stop each other. Stop may be called
// again.
func (inf *Informer[T]) Subscribe(handle func(old, new T)) (stop func()) {
	h := &handler[T]{inf: inf, call: handle, ended: make(chan struct{})}
	inf.mu.Lock()
	defer inf.mu.Unlock()
	if inf.state == stopped {
		return func() {}
	}
	inf.handlers[h] = struct{}{}
	if inf.state == running {
		h.start()
	}
	return h.stop
}

func (h *handler[T]) start() {
	h.started = true
	go h.run()
}

func (h *handler[T]) run() {
	defer close(h.ended)
	h.goroutine.Store(goroutineNumber())
	// This one load gives both the objects and the place in the log that follows
	// them, so nothing can fall between or come twice.
	root := h.inf.root.Load()
	var none T
	for _, object := range root.objects.all() {
		if h.stopped.Load() {
			return
		}
		h.call(none, object)
	}
	place := root.end
	root = nil
	for !h.stopped.Load() {
		events := place.ready()
		if len(events) == 0 {
			h.inf.log.wait(&place, &h.stopped)
			continue
		}
		for _, e := range events {
			if h.stopped.Load() {
				return
			}
			h.call(e.old, e.new)
		}
		place.index += len(events)
	}
}

// halt lets the goroutine end after the call it is in.
func (h *handler[T]) halt() {
	h.stopped.Store(true)
	h.inf.log.interrupt()
}

func (h *handler[T]) stop() {
	h.inf.mu.Lock()
	started := h.started
	delete(h.inf.handlers, h)
	h.inf.mu.Unlock()
	h.halt()
	if started && h.goroutine.Load() != goroutineNumber() {
		<-h.ended
	}
}

// goroutineNumber identifies the calling goroutine. Only stop needs it, to
// tell a call from within the handler, which must not wait for itself, from
// one by anybody else, who must: the caller gives us nothing else to tell by.
func goroutineNumber() uint64 {
	var buffer [64]byte
	header := buffer[:runtime.Stack(buffer[:], false)]
	fields := bytes.Fields(header)
	if len(fields) < 2 {
		return 0
	}
	number, _ := strconv.ParseUint(string(fields[1]), 10, 64)
	return number
}
