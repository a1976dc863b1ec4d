package webhook

import (
	"context"

	"github.com/planekit/planekit/authz"
)

// question is asked by one caller for all who have the same. Its fields are set
// when done is closed.
type question struct {
	of     authz.Attributes
	done   chan struct{}
	answer answer
	// abandoned says that whoever asked went away: that is no answer to the
	// others.
	abandoned bool
}

// share asks, or waits for whoever asks the same already.
func (a *Authorizer) share(ctx context.Context, key uint64, at authz.Attributes) answer {
	for {
		a.mu.Lock()
		if known, ok := a.answers.get(key, &at); ok { // it came in the meantime
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
		case !same(&q.of, &at): // the hash is the same by chance
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

// ask finds the answer to q and remembers it. Even a panic lets go of those who
// wait.
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

// remember is called with the mutex locked.
func (a *Authorizer) remember(key uint64, q *question) {
	ttl := a.config.UnauthorizedTTL
	if q.answer.decision == authz.Allow {
		ttl = a.config.AuthorizedTTL
	}
	if ttl > 0 && size(&q.of) < mostBytes {
		a.answers.put(key, q.of, q.answer, ttl)
	}
}
