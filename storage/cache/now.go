package cache

import (
	"context"
	"sync"

	"github.com/planekit/planekit/storage"
)

// revisionReader reads the store's revision for concurrent callers. One read is in progress at a
// time. Callers that arrive meanwhile share the next read, which begins after they called, so that
// its result is as current as one of their own.
type revisionReader struct {
	store storage.Store

	mu sync.Mutex // guards the fields below
	// current is the read in progress, next the read after it. Either may be nil.
	current, next *revisionRead
}

// revisionRead is one read of the revision. Its results are valid when done is closed.
type revisionRead struct {
	// turn is closed when the previous read has finished.
	turn     chan struct{}
	done     chan struct{}
	revision storage.Revision
	err      error
	// dropped means that the caller that did the read gave up, so that the others must read again.
	dropped bool
}

// Now returns the store's current revision.
func (n *revisionReader) Now(ctx context.Context) (storage.Revision, error) {
	for {
		q, mine := n.join()
		if mine {
			return n.read(ctx, q)
		}
		select {
		case <-q.done:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
		if !q.dropped {
			return q.revision, q.err
		}
		if err := ctx.Err(); err != nil {
			return 0, err
		}
	}
}

// join returns a read to wait for, or one that the caller must do itself.
func (n *revisionReader) join() (q *revisionRead, mine bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.next != nil {
		return n.next, false
	}
	q = &revisionRead{done: make(chan struct{})}
	if n.current == nil {
		n.current = q
		return q, true
	}
	q.turn = n.current.done
	n.next = q
	return q, true
}

// read waits for the turn of q and then reads the revision.
func (n *revisionReader) read(ctx context.Context, q *revisionRead) (storage.Revision, error) {
	if q.turn != nil {
		select {
		case <-q.turn:
			n.mu.Lock()
			n.current, n.next = q, nil
			n.mu.Unlock()
			q.revision, q.err = storage.Now(ctx, n.store)
		case <-ctx.Done():
			q.err = ctx.Err()
		}
	} else {
		q.revision, q.err = storage.Now(ctx, n.store)
	}
	q.dropped = q.err != nil && ctx.Err() != nil
	n.mu.Lock()
	switch q {
	case n.current:
		n.current = nil
	case n.next:
		n.next = nil
	}
	n.mu.Unlock()
	close(q.done)
	return q.revision, q.err
}
