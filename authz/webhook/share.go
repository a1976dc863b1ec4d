package webhook

import (
	"context"

	"github.com/planekit/planekit/authz"
)

// question is one call that several callers with the same question share. Its fields are set when
// done is closed.
type question struct {
	of     authz.Attributes
	done   chan struct{}
	answer answer
	// abandoned means that the calling request was cancelled, so that the waiting callers must ask
	// again.
	abandoned bool
}

// share asks the question, or waits for a caller that asks the same one.
func (a *Authorizer) share(ctx context.Context, key uint64, at authz.Attributes) answer {
	for {
		a.mu.Lock()
		if known, ok := a.answers.get(key, &at); ok { // it was answered meanwhile
			a.mu.Unlock()
			return known
		}
		q, asked := a.flights[key]
		if !asked {
			q = &question{of: own(at), done: make(chan struct{})}
			a.flights[key] = q
		}
		a.mu.Unlock()
		switch {
		case !asked:
			a.ask(ctx, key, q)
			return q.answer
		case !same(&q.of, &at): // a hash collision
			known, err := a.review(ctx, &at)
			if err != nil {
				return a.failed(err)
			}
			return known
		}
		select {
		case <-ctx.Done():
			return a.failed(ctx.Err())
		case <-q.done:
		}
		if !q.abandoned {
			return q.answer
		}
	}
}

// ask gets the answer to q and caches it. It wakes the waiting callers even after a panic.
func (a *Authorizer) ask(ctx context.Context, key uint64, q *question) {
	q.abandoned = true
	remember := false
	defer func() {
		a.mu.Lock()
		delete(a.flights, key)
		if remember {
			a.remember(key, q)
		}
		a.mu.Unlock()
		close(q.done)
	}()
	known, err := a.review(ctx, &q.of)
	if err != nil {
		q.abandoned = ctx.Err() != nil
		q.answer = a.failed(err)
		return
	}
	q.answer, q.abandoned, remember = known, false, true
}

// remember caches the answer to q. The caller holds the mutex.
func (a *Authorizer) remember(key uint64, q *question) {
	ttl := a.config.UnauthorizedTTL
	if q.answer.decision == authz.Allow {
		ttl = a.config.AuthorizedTTL
	}
	if ttl > 0 && size(&q.of) < mostBytes {
		a.answers.put(key, q.of, q.answer, ttl)
	}
}
