package informer

import (
	"bytes"
	"math/rand/v2"
	"runtime"
	"strconv"
	"time"
)

func (h *Handle[T]) run() {
	defer close(h.done)
	h.goroutine.Store(goroutineNumber())
	if h.options.Resync > 0 {
		h.timer = time.AfterFunc(h.resyncAfter(), func() {
			h.due.Store(true)
			h.inf.log.wake()
		})
		defer h.timer.Stop()
	}
	if h.options.Delivery == Coalescing {
		h.coalesce()
	} else {
		h.follow()
	}
}

func (h *Handle[T]) resyncAfter() time.Duration {
	return h.options.Resync + rand.N(h.options.Resync/10+1)
}

// begin tells of the objects of the current root and returns their place in the
// log: one load gives both, so nothing can fall between or come twice.
func (h *Handle[T]) begin() uint64 {
	objects, end := h.inf.now()
	h.moveTo(end)
	h.list(objects, Added)
	return objects.seq
}

// follow tells of the log.
func (h *Handle[T]) follow() {
	told := h.begin()
	// again is a root to be told again, once the handler has been told of all that
	// led to it.
	var again *root[T]
	for !h.stopped.Load() {
		h.settle(told >= h.inf.syncedAt.Load())
		if again == nil && h.due.Swap(false) {
			again = h.inf.root()
		}
		most := uint64(chunkSize)
		if again != nil {
			if most = again.seq - told; most == 0 {
				h.list(again, Resynced)
				again = nil
				h.timer.Reset(h.resyncAfter())
				continue
			}
		}
		events, lost := h.take(most)
		switch {
		case lost != nil:
			told = h.catchUp(lost)
			if again != nil {
				again = nil
				h.due.Store(true)
			}
		case len(events) > 0:
			h.tell(events, told)
			told += uint64(len(events))
		default:
			clear(h.buffer[:cap(h.buffer)]) // what the handler has been told of may go
			h.inf.log.wait(func() bool {
				return h.stopped.Load() || h.due.Load() && again == nil || h.ready() ||
					!h.settled && told >= h.inf.syncedAt.Load()
			})
		}
	}
}

// tell calls the handler with events, the first of which is number seq.
func (h *Handle[T]) tell(events []event[T], seq uint64) {
	// Whether the first list is behind us does not change while events before its
	// end are told.
	until := h.inf.syncedAt.Load()
	for i := range events {
		if h.stopped.Load() {
			return
		}
		e := &events[i]
		h.call(Event[T]{Old: e.old, New: e.new, Kind: e.kind, Initial: seq+uint64(i) < until})
	}
}

// list tells of every object of root.
func (h *Handle[T]) list(root *root[T], kind Kind) {
	for _, object := range root.objects.all() {
		if h.stopped.Load() {
			return
		}
		e := Event[T]{New: object, Kind: kind}
		if kind == Added {
			e.Initial = true
		} else {
			e.Old = object
		}
		h.call(e)
	}
}

// settle closes Synced once now is true.
func (h *Handle[T]) settle(now bool) {
	if now && !h.settled && !h.stopped.Load() {
		h.settled = true
		close(h.synced)
	}
}

func (h *Handle[T]) moveTo(place position[T]) {
	h.mu.Lock()
	h.place, h.lost = place, nil
	h.mu.Unlock()
}

// take returns up to most events that the handler is to be told of next and
// moves it behind them, or returns what it has lost. A Bounded handler is given
// a copy: while it is being told, nothing of its own may refer to the log.
func (h *Handle[T]) take(most uint64) ([]event[T], *lost[T]) {
	if h.options.Delivery == Bounded {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.lost != nil {
			return nil, h.lost
		}
	}
	events := h.place.ready()
	events = events[:min(uint64(len(events)), most)]
	h.place.skip(len(events))
	if h.options.Delivery == Bounded {
		h.buffer = append(h.buffer[:0], events...)
		events = h.buffer
	}
	return events, nil
}

// ready tells whether take has something.
func (h *Handle[T]) ready() bool {
	if h.options.Delivery == Bounded {
		h.mu.Lock()
		defer h.mu.Unlock()
		if h.lost != nil {
			return true
		}
	}
	return len(h.place.ready()) > 0
}

// coalesce tells of the difference between the root that the handler knows and
// the current one, and so on.
func (h *Handle[T]) coalesce() {
	known := new(root[T])
	news := func(now *root[T]) bool { return now.seq != known.seq || now.synced != known.synced }
	for !h.stopped.Load() {
		if now := h.inf.root(); news(now) {
			h.inf.difference(known, now, func(before, after *T) bool { return h.net(before, after, !known.synced) })
			known = now
		}
		h.settle(known.synced)
		if h.due.Swap(false) {
			h.list(known, Resynced)
			h.timer.Reset(h.resyncAfter())
		}
		h.inf.log.wait(func() bool { return h.stopped.Load() || h.due.Load() || news(h.inf.root()) })
	}
}

// net tells of one object that was before and is after, either of which may be
// nil. It returns whether there may be another call.
func (h *Handle[T]) net(before, after *T, initial bool) bool {
	e := Event[T]{Initial: initial, Merged: !initial}
	uid := h.inf.config.UID
	switch {
	case h.stopped.Load():
		return false
	case before == nil:
		e.Kind, e.New = Added, *after
	case after == nil:
		e.Kind, e.Old = Deleted, *before
	case uid != nil && uid(*before) != uid(*after):
		return h.net(before, nil, initial) && h.net(nil, after, initial)
	default:
		e.Kind, e.Old, e.New = Changed, *before, *after
	}
	h.call(e)
	return !h.stopped.Load()
}

// goroutineNumber identifies the calling goroutine. Only Close needs it, to
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
