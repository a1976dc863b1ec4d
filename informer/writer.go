package informer

import "sync"

// writer is the Sink that an Informer passes to its Source. Only the writer changes the cache.
// Changes of single objects wait in a queue. One goroutine takes the whole queue at a time and
// applies it in one draft, so that quick changes share the copying of nodes, the publishing and the
// waking of handlers.
type writer[T any] struct {
	inf *Informer[T]

	// mu is locked while the cache is changed.
	mu sync.Mutex
	// The fields below are guarded by mu.
	edit uint64
	list *draft[T] // the list that is being received, or nil

	queueMu sync.Mutex
	// The fields below are guarded by queueMu.
	queue  []op[T]
	closed bool
	// changed is signalled when the queue is no longer empty, and when it is no longer full. The
	// goroutine waits for the one and the source for the other, so that at most one of them waits.
	changed sync.Cond
}

// op is a reported change of one object.
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

// maxQueue limits the changes that wait to be stored. It is large enough to share the work of
// copying and publishing, and corresponds to some milliseconds of that work.
const maxQueue = 4096

func newWriter[T any](inf *Informer[T]) *writer[T] {
	w := &writer[T]{inf: inf}
	w.changed.L = &w.queueMu
	return w
}

// Put stores object.
func (w *writer[T]) Put(revision string, object T) { w.push(op[T]{opPut, revision, object}) }

// Remove removes object.
func (w *writer[T]) Remove(revision string, object T) { w.push(op[T]{opRemove, revision, object}) }

// Bookmark advances the revision.
func (w *writer[T]) Bookmark(revision string) { w.push(op[T]{kind: opBookmark, revision: revision}) }

func (w *writer[T]) push(o op[T]) {
	w.queueMu.Lock()
	defer w.queueMu.Unlock()
	for len(w.queue) >= maxQueue && !w.closed {
		w.changed.Wait()
	}
	if w.queue = append(w.queue, o); len(w.queue) == 1 {
		w.changed.Signal()
	}
}

// run stores queued changes until close.
func (w *writer[T]) run() {
	for w.wait() {
		w.mu.Lock()
		w.flush()
		w.mu.Unlock()
	}
}

// wait waits until the queue is not empty. It returns false after close.
func (w *writer[T]) wait() bool {
	w.queueMu.Lock()
	defer w.queueMu.Unlock()
	for len(w.queue) == 0 && !w.closed {
		w.changed.Wait()
	}
	return !w.closed
}

func (w *writer[T]) close() {
	w.queueMu.Lock()
	defer w.queueMu.Unlock()
	w.closed = true
	w.changed.Broadcast()
}

// finish stores all changes that the source reported before its Sync returned.
func (w *writer[T]) finish() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flush()
	w.list = nil
}

// flush stores all queued changes. The caller holds mu.
func (w *writer[T]) flush() {
	w.queueMu.Lock()
	batch := w.queue
	// The next batch may be as large. After a burst, a small queue frees the memory.
	w.queue = make([]op[T], 0, len(batch))
	if len(batch) >= maxQueue {
		w.changed.Signal()
	}
	w.queueMu.Unlock()
	if len(batch) > 0 {
		w.store(batch)
	}
}

// store applies a batch in one draft. The caller holds mu.
func (w *writer[T]) store(batch []op[T]) {
	w.list = nil // the source has abandoned it
	d := w.draft()
	d.events = make([]event[T], 0, len(batch))
	for i := range batch {
		o := &batch[i]
		if compare(o.revision, d.root.revision) < 0 {
			continue // the cache has it or something newer
		}
		d.root.revision = o.revision
		switch o.kind {
		case opPut:
			d.put(o.object)
		case opRemove:
			d.remove(o.object)
		}
	}
	d.publish()
}

func (w *writer[T]) draft() *draft[T] {
	w.edit++
	return newDraft(w.inf, w.edit)
}

// Begin begins a list.
func (w *writer[T]) Begin() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.flush()
	w.list = w.draft()
	w.list.list = true
}

// Item stores one object of the list.
func (w *writer[T]) Item(object T) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.list != nil {
		w.list.put(object)
	}
}

// Unchanged adds one object of the list that the cache already has.
func (w *writer[T]) Unchanged(key, revision string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.list != nil && w.list.unchanged(key, revision)
}

// End makes the cache equal to the list, unless the cache is newer.
func (w *writer[T]) End(revision string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	d := w.list
	w.list = nil
	if d == nil || compare(revision, d.root.revision) < 0 {
		return
	}
	d.removeUnlisted()
	first := !d.root.synced
	d.root.revision, d.root.synced = revision, true
	d.publish()
	if first {
		close(w.inf.synced)
	}
}

// Replace makes the cache equal to objects.
func (w *writer[T]) Replace(revision string, objects []T) {
	w.Begin()
	for _, object := range objects {
		w.Item(object)
	}
	w.End(revision)
}
