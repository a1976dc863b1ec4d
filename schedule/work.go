package schedule

import (
	"context"
	"sync"
)

// work runs functions in goroutines: those of one key one after another, and at most a fixed number
// at a time.
type work struct {
	slots chan struct{} // as many as may run
	group sync.WaitGroup

	mu sync.Mutex // guards last
	// last is closed when the latest function of a key has returned.
	last map[string]chan struct{}
}

func newWork(parallel int) *work {
	return &work{slots: make(chan struct{}, parallel), last: make(map[string]chan struct{})}
}

// do runs f once the earlier functions of key have returned. It waits for a slot; if ctx is done, f
// does not run, and do returns false.
func (w *work) do(ctx context.Context, key string, f func()) bool {
	select {
	case w.slots <- struct{}{}:
	case <-ctx.Done():
		return false
	}
	done := make(chan struct{})
	w.mu.Lock()
	before := w.last[key]
	w.last[key] = done
	w.mu.Unlock()
	w.group.Go(func() {
		defer func() { <-w.slots }()
		if before != nil {
			<-before // it has a slot of its own and does not depend on this one
		}
		f()
		close(done)
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.last[key] == done {
			delete(w.last, key)
		}
	})
	return true
}

// wait waits for all functions.
func (w *work) wait() { w.group.Wait() }
