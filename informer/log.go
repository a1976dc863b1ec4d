package informer

import (
	"sync"
	"sync/atomic"
)

// event is one change that every handler is told of.
type event[T any] struct {
	old, new T
	kind     Kind
}

// chunkSize is how many events share an allocation. The last chunk, and with
// it at most this many superseded objects, stays in memory until it is closed.
const chunkSize = 64

// chunk is a piece of the log. Events before visible may be read by anyone and
// never change. When all are visible and read, the reader goes on to next.
type chunk[T any] struct {
	events  [chunkSize]event[T]
	visible atomic.Int32
	next    atomic.Pointer[chunk[T]]
	// closed is how many events the chunk has if no more will come, although there
	// is room; zero while they may. It is set after next.
	closed atomic.Int32
}

// position is a place between two events.
type position[T any] struct {
	chunk *chunk[T]
	index int
	// seq is how many events the log had before this place since it began.
	seq uint64
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
		// There is a next one already if events have been taken back.
		next := l.end.chunk.next.Load()
		if next == nil {
			next = new(chunk[T])
			l.end.chunk.next.Store(next)
		}
		l.end.chunk, l.end.index = next, 0
	}
	l.end.chunk.events[l.end.index] = e
	l.end.index++
	l.end.seq++
}

// rewind takes back the events from start on, none of which has been revealed.
// A reader may have gone on to a chunk that is empty now, so chunks stay.
func (l *log[T]) rewind(start position[T]) {
	for c, first := start.chunk, start.index; c != nil; c, first = c.next.Load(), 0 {
		clear(c.events[first:])
	}
	l.end = start
}

// reveal shows all events from start to the end.
func (l *log[T]) reveal(start position[T]) {
	if start.seq == l.end.seq {
		return
	}
	for c := start.chunk; c != l.end.chunk; c = c.next.Load() {
		c.visible.Store(chunkSize)
	}
	l.end.chunk.visible.Store(int32(l.end.index))
}

// close has the next event begin another chunk, so that this one is garbage as soon as every
// handler has read it and woken again. All events must have been revealed. It returns whether there
// was one in the chunk.
func (l *log[T]) close() bool {
	last, n := l.end.chunk, l.end.index
	if n == 0 {
		return false
	}
	next := last.next.Load() // there if events have been taken back
	if next == nil {
		next = new(chunk[T])
		last.next.Store(next)
	}
	last.closed.Store(int32(n))
	l.end.chunk, l.end.index = next, 0
	return true
}

// wake has those who wait look again.
func (l *log[T]) wake() {
	if l.asleep.Load() > 0 {
		l.mu.Lock()
		l.more.Broadcast()
		l.mu.Unlock()
	}
}

// wait blocks until enough is true. Whatever can make it true must be followed
// by wake.
func (l *log[T]) wait(enough func() bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asleep.Add(1)
	defer l.asleep.Add(-1)
	for !enough() {
		l.more.Wait()
	}
}

// ready returns the events to be read at p, which is moved to the next chunk
// when it has finished one.
func (p *position[T]) ready() []event[T] {
	for p.index == chunkSize || p.index > 0 && p.index == int(p.chunk.closed.Load()) {
		next := p.chunk.next.Load()
		if next == nil {
			return nil
		}
		p.chunk, p.index = next, 0
	}
	if n := int(p.chunk.visible.Load()); n > p.index {
		return p.chunk.events[p.index:n]
	}
	return nil
}

// skip moves p over n events that ready returned.
func (p *position[T]) skip(n int) {
	p.index += n
	p.seq += uint64(n)
}
