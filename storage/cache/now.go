package cache

import (
	"context"
	"sync"

	"github.com/planekit/planekit/storage"
)

// nows asks the store for its revision on behalf of many: one question is under
// way at a time, and all who ask meanwhile share the next, which begins after
// they have asked. So what each is told is as good as an answer of its own.
type nows struct {
	store storage.Store

	mu sync.Mutex // guards what follows
	// asking is the question under way, next the one after it; each may be nil.
	asking, next *question
}

// question is one question and, when done is closed, the answer.
type question struct {
	// turn is closed when the one before has been answered.
	turn     chan struct{}
	done     chan struct{}
	revision storage.Revision
	err      error
	// dropped says that whoever asked gave up, which is no answer to others.
	dropped bool
}

// Now returns the store's own revision.
func (n *nows) Now(ctx context.Context) (storage.Revision, error) {
	for {
		q, mine := n.join()
		if mine {
			return n.ask(ctx, q)
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

// join returns the question that the caller may share the answer of, or one that
// it must ask.
func (n *nows) join() (q *question, mine bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.next != nil {
		return n.next, false
	}
	q = &question{done: make(chan struct{})}
	if n.asking == nil {
		n.asking = q
		return q, true
	}
	q.turn = n.asking.done
	n.next = q
	return q, true
}

// ask waits for the turn of q and asks it.
func (n *nows) ask(ctx context.Context, q *question) (storage.Revision, error) {
	if q.turn != nil {
		select {
		case <-q.turn:
			n.mu.Lock()
			n.asking, n.next = q, nil
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
	case n.asking:
		n.asking = nil
	case n.next:
		n.next = nil
	}
	n.mu.Unlock()
	close(q.done)
	return q.revision, q.err
}
