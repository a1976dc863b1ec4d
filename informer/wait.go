package informer

import (
	"context"
	"errors"
)

// ErrStopped is what WaitFor returns when Run has ended: the copy will not
// become any newer.
var ErrStopped = errors.New("informer has stopped")

type waiter struct {
	revision string
	ready    chan struct{}
}

// WaitFor waits until the copy is at least as new as revision; for the empty
// revision, until the first full list has been stored. It returns the error of
// ctx, or ErrStopped. Only wait for a revision at which an object of this very
// resource was written: of other revisions the source may never speak.
func (inf *Informer[T]) WaitFor(ctx context.Context, revision string) error {
	if inf.reached(inf.root(), revision) {
		return nil
	}
	w := &waiter{revision, make(chan struct{})}
	inf.mu.Lock()
	inf.waiters[w] = struct{}{}
	inf.mu.Unlock()
	inf.waiting.Add(1)
	defer func() {
		inf.waiting.Add(-1)
		inf.mu.Lock()
		delete(inf.waiters, w)
		inf.mu.Unlock()
	}()
	// A change that was published before waiting was raised told nobody.
	if inf.reached(inf.root(), revision) {
		return nil
	}
	select {
	case <-w.ready:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-inf.done:
		return ErrStopped
	}
}

func (inf *Informer[T]) reached(r *root[T], revision string) bool {
	return r.synced && inf.config.Compare(r.revision, revision) >= 0
}

// release lets go those who wait for r.
func (inf *Informer[T]) release(r *root[T]) {
	if inf.waiting.Load() == 0 {
		return
	}
	inf.mu.Lock()
	defer inf.mu.Unlock()
	for w := range inf.waiters {
		if inf.reached(r, w.revision) {
			delete(inf.waiters, w)
			close(w.ready)
		}
	}
}
