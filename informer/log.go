package informer

import (
	"sync"
	"sync/atomic"
)

// event is one call that every handler gets.
type event[T any] struct{ old, new T }

// chunkSize is how many events share an allocation. The last chunk, and with
// it at most this many superseded objects, stays in memory.
const chunkSize = 64

// chunk is a piece of the log. Events before visible may be read by anyone and
// never change. When all are visible and read, the reader goes on to next.
type chunk[T any] struct {
	events  [chunkSize]event[T]
	visible atomic.Int32
	next    atomic.Pointer[chunk[T]]
}

// position is a place between two events.
type position[T any] struct {
	chunk *chunk[T]
	index int
}

// log is an append-only list of events with one writer. It refers to its end
// only: what every handler has read is garbage.
type log[T any] struct {
	end position[T] // the writer's

	// asleep counts handlers that wait for more, so that the writer takes no lock
	// when it is zero. It is changed under mu.
	asleep atomic.Int32
	mu     sync.Mutex
	more   sync.Cond
}

func newLog[T any]() *log[T] {
	l := &log[T]{end: position[T]{chunk: new(chunk[T])}}
	l.more.L = &l.mu
	return l
}

// append writes an event behind the end, where nobody sees it yet.
func (l *log[T]) append(e event[T]) {
	if l.end.index == chunkSize {
		next := new(chunk[T])
		l.end.chunk.next.Store(next)
		l.end = position[T]{chunk: next}
	}
	l.end.chunk.events[l.end.index] = e
	l.end.index++
}

// reveal shows all events from start to the end.
func (l *log[T]) reveal(start position[T]) {
	if start == l.end {
		return
	}
	for c := start.chunk; c != l.end.chunk; c = c.next.Load() {
		c.visible.Store(chunkSize)
	}
	l.end.chunk.visible.Store(int32(l.end.index))
	if l.asleep.Load() > 0 {
		l.mu.Lock()
		l.more.Broadcast()
		l.mu.Unlock()
	}
}

// ready returns the events to be read at p, which is moved to the next chunk
// when it has finished one.
func (p *position[T]) ready() []event[T] {
	if p.index == chunkSize {
		next := p.chunk.next.Load()
		if next == nil {
			return nil
		}
		*p = position[T]{chunk: next}
	}
	if n := int(p.chunk.visible.Load()); n > p.index {
		return p.chunk.events[p.index:n]
	}
	return nil
}

// wait blocks until there are events at p or stop is set.
func (l *log[T]) wait(p *position[T], stop *atomic.Bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asleep.Add(1)
	defer l.asleep.Add(-1)
	for !stop.Load() && len(p.ready()) == 0 {
		l.more.Wait()
	}
}

// interrupt makes those who wait look at their stop again.
func (l *log[T]) interrupt() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.more.Broadcast()
}
