package informer

import (
	"sync"
	"time"
)

// writer is the Sink that an Informer gives to its Source, and the one place
// where the copy is changed. What the source says of single objects waits in a
// queue, from which one goroutine takes all there is at a time and makes one
// draft of it: when changes come faster than they can be stored one by one,
// they share the copying of nodes, the publishing and the waking of handlers.
type writer[T any] struct {
	inf *Informer[T]

	// mu is held by whoever changes the copy and guards the fields below and the
	// end of the log.
	mu   sync.Mutex
	edit uint64
	// slots is how many slots there are, of which those in free are not taken.
	slots uint32
	free  []uint32
	// list is the list that is being received, if any.
	list *draft[T]
	// spare is the queue's other slice.
	spare []op[T]
	// changes are those to be applied next, with their keys and where they are
	// looked for. These slices are empty in between and kept for their room.
	changes  []change[T]
	searches []search
	keys     []byte
	// touched makes something of what is read only to have it at hand.
	touched uint32
	// helping is set while the source stores what waits, and owed once handlers
	// are to be woken.
	helping, owed bool
	// rest calls tidy; nil while there is nothing to tidy up.
	rest *time.Timer

	// queued guards the fields below; news and room tell of changes to them.
	queued     sync.Mutex
	news, room sync.Cond
	queue      []op[T]
	closed     bool
}

// op is what the source has said of one object.
type op[T any] struct {
	kind     opKind
	revision string
	object   T
}

type opKind uint8

const (
	opPut opKind = iota
	opRemove
	opBookmark
)

// maxQueue is how many changes may wait to be stored: enough to share the work
// of copying and publishing, and some milliseconds of it.
const maxQueue = 4096

func newWriter[T any](inf *Informer[T]) *writer[T] {
	w := &writer[T]{inf: inf}
	w.news.L, w.room.L = &w.queued, &w.queued
	return w
}

// Put stores one object.
func (w *writer[T]) Put(revision string, object T) { w.push(op[T]{opPut, revision, object}) }

// Remove forgets one object.
func (w *writer[T]) Remove(revision string, object T) { w.push(op[T]{opRemove, revision, object}) }

// Bookmark advances the revision.
func (w *writer[T]) Bookmark(revision string) { w.push(op[T]{kind: opBookmark, revision: revision}) }

func (w *writer[T]) push(o op[T]) {
	w.queued.Lock()
	for len(w.queue) >= maxQueue && !w.closed {
		if !w.mu.TryLock() {
			w.room.Wait()
			continue
		}
		w.queued.Unlock()
		w.help()
		w.queued.Lock()
	}
	w.queue = append(w.queue, o)
	first := len(w.queue) == 1
	w.queued.Unlock()
	if first {
		w.news.Signal()
	}
}

// help has the source store what waits: so much does only if the goroutine that
// is to do it gets no processor, and to wait for it would be to get behind all
// others who want one. Handlers are left to that goroutine, which has been
// called and will find what the source says next: woken now, they would go
// before it. It is called with mu held and lets go of it.
func (w *writer[T]) help() {
	defer w.mu.Unlock()
	w.helping = true
	defer func() { w.helping = false }()
	w.drain()
}

// run stores what is queued until close.
func (w *writer[T]) run() {
	for {
		w.queued.Lock()
		for len(w.queue) == 0 && !w.closed {
			w.news.Wait()
		}
		closed := w.closed
		w.queued.Unlock()
		if closed {
			return
		}
		w.flush()
	}
}

func (w *writer[T]) close() {
	w.queued.Lock()
	w.closed = true
	w.queued.Unlock()
	w.news.Signal()
	w.room.Broadcast()
}

// flush stores all that has been queued so far.
func (w *writer[T]) flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drain()
}

// finish stores all that the source has said before its Sync ended.
func (w *writer[T]) finish() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.giveUpList()
	w.drain()
}

func (w *writer[T]) drain() {
	w.queued.Lock()
	batch := w.queue
	w.queue = w.spare[:0]
	w.queued.Unlock()
	if len(batch) >= maxQueue {
		w.room.Broadcast()
	}
	if len(batch) > 0 {
		w.giveUpList()
		w.store(batch)
	}
	clear(batch)
	w.spare = batch[:0]
	w.wake()
}

// wake wakes handlers if there is something that they have not been woken for.
func (w *writer[T]) wake() {
	if w.owed && !w.helping {
		w.owed = false
		w.inf.log.wake()
	}
}

// Begin begins a list.
func (w *writer[T]) Begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drain()
	w.begin()
}

func (w *writer[T]) begin() {
	w.giveUpList()
	w.list = w.draft()
	w.list.list = true
}

// giveUpList forgets a list that was not ended.
func (w *writer[T]) giveUpList() {
	if w.list != nil {
		w.list.abandon()
		w.list = nil
	}
}

// Item takes one object of the list.
func (w *writer[T]) Item(object T) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.list != nil {
		w.add(opPut, object)
		w.list.apply()
	}
}

// Unchanged takes one object of the list that is known.
func (w *writer[T]) Unchanged(key, revision string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.list != nil && w.list.unchanged(key, revision)
}

// End makes the copy equal to the list, as a diff.
func (w *writer[T]) End(revision string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.end(revision)
}

func (w *writer[T]) end(revision string) {
	d := w.list
	if d == nil {
		return
	}
	if d.old(revision) {
		w.giveUpList()
		return
	}
	w.list = nil
	d.removeUnlisted()
	d.root.synced = true
	d.publish(revision)
	select {
	case <-w.inf.synced:
	default:
		close(w.inf.synced)
	}
}

// Replace makes the copy equal to objects.
func (w *writer[T]) Replace(revision string, objects []T) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.drain()
	w.begin()
	for _, object := range objects {
		w.add(opPut, object)
		if len(w.changes) == together {
			w.list.apply()
		}
	}
	w.list.apply()
	w.end(revision)
}
