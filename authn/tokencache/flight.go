package tokencache

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"runtime/debug"
	"time"

	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/internal/keyed"
)

// flight is one call of the authenticator that several callers may wait for. Its goroutine ends
// with the answer. Its context ends when no caller waits any more, or after the timeout.
type flight struct {
	ctx    context.Context
	cancel context.CancelFunc
	// done is closed after answer has been set.
	done   chan struct{}
	answer answer

	waiting int // guarded by the cache's mu
}

// ask waits for the answer about a token, and starts a flight unless there is one.
func (c *Cache) ask(ctx context.Context, key keyed.Digest, token string, audiences []string, now time.Time) answer {
	c.mu.Lock()
	if a, ok := c.remembered(key, now); ok {
		c.mu.Unlock()
		return a
	}
	f := c.flights[key]
	if f == nil {
		f = c.newFlight(audiences)
		c.flights[key] = f
		go c.fly(f, key, token)
	}
	f.waiting++
	c.mu.Unlock()

	defer c.leave(f, key)
	select {
	case <-f.done:
		return f.answer
	case <-ctx.Done():
		return answer{err: fmt.Errorf("%w: %w", authn.ErrUnchecked, ctx.Err())}
	case <-f.ctx.Done():
	}
	select { // the context also ends after the answer
	case <-f.done:
		return f.answer
	default:
		return answer{err: fmt.Errorf("%w: %w", authn.ErrUnchecked, f.ctx.Err())}
	}
}

// newFlight copies only the audiences from the first caller, because other callers share the
// answer.
func (c *Cache) newFlight(audiences []string) *flight {
	f := &flight{done: make(chan struct{})}
	f.ctx, f.cancel = context.WithTimeout(context.Background(), c.config.Timeout)
	if len(audiences) > 0 {
		f.ctx = authn.WithAudiences(f.ctx, audiences)
	}
	return f
}

// leave removes a waiting caller, and ends a flight without any. Later callers start another.
func (c *Cache) leave(f *flight, key keyed.Digest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if f.waiting--; f.waiting == 0 {
		f.cancel()
		c.forget(f, key)
	}
}

// forget removes a flight. The caller holds mu.
func (c *Cache) forget(f *flight, key keyed.Digest) {
	if c.flights[key] == f {
		delete(c.flights, key)
	}
}

// fly asks the authenticator. It always sets an answer.
func (c *Cache) fly(f *flight, key keyed.Digest, token string) {
	f.answer = answer{err: fmt.Errorf("%w: the authenticator gave up", authn.ErrUnchecked)} // if the authenticator ends the goroutine
	defer func() {
		if recover() != nil {
			f.answer = answer{err: fmt.Errorf("%w: the authenticator panicked", authn.ErrUnchecked)}
			if c.config.Panicked != nil {
				c.config.Panicked(debug.Stack())
			}
		}
		c.mu.Lock()
		c.forget(f, key)
		if f.answer.known || f.ctx.Err() == nil { // a refusal after the end may be a result of it
			c.remember(key, f.answer, time.Now())
		}
		c.mu.Unlock()
		close(f.done)
		f.cancel()
	}()
	r := &http.Request{
		Method: http.MethodGet, URL: &url.URL{Path: "/"}, Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Authorization": {"Bearer " + token}},
	}
	ctx, collected := authn.CollectMatched(f.ctx)
	ctx, annotations := authn.CollectAnnotations(ctx)
	u, known, err := c.config.Authenticator.Authenticate(r.WithContext(ctx))
	f.answer = answer{user: u, known: known, err: err}
	f.answer.matched, f.answer.reported = collected()
	f.answer.annotations = annotations()
}
