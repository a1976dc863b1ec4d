package informer

import "github.com/planekit/planekit/localcache"

// entry holds the changes of one draft. The entries form the log, a list that all handlers follow,
// each at its own pace. The log refers only to its end: entries that every handler has read are
// garbage.
type entry[T any] struct {
	// ready is closed once the fields below are set. They never change after that.
	ready  chan struct{}
	events []event[T]
	// synced is true if the first full list is in this entry or an earlier one.
	synced bool
	next   *entry[T]
}

// event is one call of each handler.
type event[T any] struct{ old, new T }

func newEntry[T any]() *entry[T] { return &entry[T]{ready: make(chan struct{})} }

// handler is one subscription.
type handler[T any] struct {
	handle func(old, new T)
	// stop is closed to end the calls, and done once they have ended.
	stop, done, caughtUp chan struct{}
}

// Subscribe calls handle from a goroutine of its own until the subscription or Run ends. A slow
// handler delays neither the informer nor other handlers, but the changes that it has not received
// stay in memory.
func (inf *Informer[T]) Subscribe(handle func(old, new T)) localcache.Subscription {
	h := &handler[T]{handle, make(chan struct{}), make(chan struct{}), make(chan struct{})}
	inf.mu.Lock()
	defer inf.mu.Unlock()
	if inf.state == stopped {
		close(h.done)
	} else {
		inf.handlers[h] = true
		go h.run(inf.current.Load())
	}
	return localcache.Subscription{Stop: func() { inf.stop(h) }, CaughtUp: h.caughtUp}
}

// stop ends the calls of a handler and waits for one in progress.
func (inf *Informer[T]) stop(h *handler[T]) {
	inf.mu.Lock()
	if inf.handlers[h] {
		delete(inf.handlers, h)
		close(h.stop)
	}
	inf.mu.Unlock()
	<-h.done
}

// run passes the objects of begin and then the events of the log to the handler.
func (h *handler[T]) run(begin *published[T]) {
	defer close(h.done)
	var none T
	for _, object := range begin.root.objects.all() {
		if !h.call(none, object) {
			return
		}
	}
	synced, next := begin.root.synced, begin.next
	for caughtUp := false; ; {
		if synced && !caughtUp {
			caughtUp = true
			close(h.caughtUp)
		}
		select {
		case <-next.ready:
		case <-h.stop:
			return
		}
		for _, e := range next.events {
			if !h.call(e.old, e.new) {
				return
			}
		}
		synced, next = next.synced, next.next
	}
}

// call calls the handler, unless it was stopped, and reports whether it did.
func (h *handler[T]) call(old, new T) bool {
	select {
	case <-h.stop:
		return false
	default:
		h.handle(old, new)
		return true
	}
}
