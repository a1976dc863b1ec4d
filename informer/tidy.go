package informer

import "time"

// tidyAfter is how long what has been stored may keep memory for which there is no use any more. It is
// rare enough to cost nothing and soon enough for memory to come back after a burst.
const tidyAfter = time.Minute

// keptSlots is how many free slots a writer has room for after a burst.
const keptSlots = 1024

// tidyLater has tidy called when it is time. mu is held.
func (w *writer[T]) tidyLater() {
	if w.rest == nil {
		w.rest = time.AfterFunc(tidyAfter, w.tidy)
	}
}

// tidy lets go of what the latest changes have left behind: the objects that they replaced, which the
// last chunk of the log has, and the room that their batches took.
func (w *writer[T]) tidy() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.rest = nil
	if w.list != nil {
		w.tidyLater() // the events of the list have not been revealed
		return
	}
	w.spare, w.changes, w.searches, w.keys = nil, nil, nil, nil
	w.queued.Lock()
	if len(w.queue) == 0 {
		w.queue = nil
	}
	w.queued.Unlock()
	if inf := w.inf; inf.log.close() {
		// New handlers begin where the log goes on.
		inf.current.Store(&published[T]{inf.root(), inf.log.end})
		inf.log.wake() // so that handlers go on to the next chunk
	}
}

// stopTidying is for the end of Run. A tidy that is under way is harmless.
func (w *writer[T]) stopTidying() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.rest != nil {
		w.rest.Stop()
	}
}

// release makes slot free; left is how many are taken still.
func (w *writer[T]) release(slot uint32, left int) {
	switch {
	case left > 0:
		w.free = append(w.free, slot)
	case cap(w.free) > keptSlots:
		w.free, w.slots = nil, 0
	default:
		w.free, w.slots = w.free[:0], 0
	}
}
