package schedule

import (
	"context"
	"sync"
)

// work runs functions on goroutines: those of one key one after the other, and
// never more than a number at a time.
type work struct {
	slots chan struct{} // as many as may run
	group sync.WaitGroup

	mu sync.Mutex // guards last
	// last is closed when the function that was given last for a key is done.
	last map[string]chan struct{}
}

func newWork(parallel int) *work {
	return &work{slots: make(chan struct{}, parallel), last: make(map[string]chan struct{})}
}

// do runs f as soon as the functions given before for key are done. It waits
// for a slot, unless ctx is done; then f is not run.
func (w *work) do(ctx context.Context, key string, f func()) {
	select {
	case w.slots <- struct{}{}:
	case <-ctx.Done():
		return
	}
	done := make(chan struct{})
	w.mu.Lock()
	before := w.last[key]
	w.last[key] = done
	w.mu.Unlock()
	w.group.Go(func() {
		defer func() { <-w.slots }()
		if before != nil {
			<-before // holds a slot of its own and goes on without this one
		}
		f()
		close(done)
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.last[key] == done {
			delete(w.last, key)
		}
	})
}

// wait waits for all functions.
func (w *work) wait() { w.group.Wait() }
