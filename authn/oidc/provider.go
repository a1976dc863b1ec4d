package oidc

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

const (
	// minInterval is the minimum interval between fetches that tokens trigger.
	minInterval = 10 * time.Second
	// maxWaiting bounds the requests that wait for a fetch: their users are not known yet.
	maxWaiting = 256
	// firstRetry is the first delay after a failure. It doubles up to maxRetry.
	firstRetry, maxRetry = time.Second, 30 * time.Second
)

// A provider is an issuer with its keys. The goroutine of run fetches them; other goroutines wake
// it.
type provider struct {
	issuer Issuer
	log    logr.Logger
	client *http.Client
	found  chan struct{} // closed when there are keys for the first time
	wake   chan struct{} // size 1: a request for a fetch is pending

	mu sync.Mutex
	// The following are guarded by mu.
	running   bool
	current   *keySet   // immutable; nil before the first fetch
	attempted time.Time // when the last attempt ended
	waiting   int       // callers of fresher that wait
	ended     chan struct{}
}

// keySet holds keys that were fetched together.
type keySet struct{ list []key }

func newProvider(i Issuer, log logr.Logger) *provider {
	return &provider{issuer: i, log: log, client: newClient(&i),
		found: make(chan struct{}), wake: make(chan struct{}, 1), ended: make(chan struct{})}
}

// run fetches the keys when they are old or a caller requests it, until ctx ends.
func (p *provider) run(ctx context.Context) {
	p.setRunning(true)
	defer p.client.CloseIdleConnections()
	defer p.setRunning(false)
	retry := firstRetry
	for {
		fetched, age, err := p.fetch(ctx)
		if ctx.Err() != nil {
			return
		}
		p.attemptEnded(fetched)
		if err != nil {
			p.log.Error(err, "keys of OpenID Connect issuer cannot be fetched", "retryAfter", retry)
			age, retry = retry, min(2*retry, maxRetry)
		} else {
			p.log.V(2).Info("keys of OpenID Connect issuer fetched", "keys", len(fetched.list))
			retry = firstRetry
		}
		if !p.wait(ctx, age) {
			return
		}
	}
}

// wait returns true when it is time for a fetch.
func (p *provider) wait(ctx context.Context, longest time.Duration) bool {
	timer := time.NewTimer(longest)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return false
		case <-timer.C:
			return true
		case <-p.wake:
			// A caller may have requested a fetch just before another one ended. It no longer
			// waits.
			p.mu.Lock()
			soon := p.soon()
			p.mu.Unlock()
			if !soon {
				return true
			}
		}
	}
}

// soon reports whether tokens must not trigger a fetch yet. The caller holds mu.
func (p *provider) soon() bool { return time.Since(p.attempted) < minInterval }

// attemptEnded makes fetched the trusted keys. If it is nil, the fetch has failed and the old keys
// stay.
func (p *provider) attemptEnded(fetched *keySet) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if fetched != nil {
		if p.current == nil {
			close(p.found)
		}
		p.current = fetched
	}
	p.attempted = time.Now()
	p.release()
}

// setRunning records whether run fetches keys. If not, callers must not wait for a fetch.
func (p *provider) setRunning(running bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = running
	p.release()
}

// release wakes all callers of fresher. The caller holds mu.
func (p *provider) release() {
	close(p.ended)
	p.ended = make(chan struct{})
}

// known returns the trusted keys; nil before the first fetch.
func (p *provider) known() *keySet {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current
}

// fresher returns keys fetched after seen. It returns nil if keys were fetched a moment ago, the
// issuer does not answer, too many callers wait, or ctx has ended.
func (p *provider) fresher(ctx context.Context, seen *keySet) *keySet {
	p.mu.Lock()
	current, ended, hopeless := p.current, p.ended, p.soon() || !p.running || p.waiting == maxWaiting
	if current != seen || hopeless {
		p.mu.Unlock()
		if current != seen {
			return current
		}
		return nil
	}
	p.waiting++
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.waiting--
	}()
	select {
	case p.wake <- struct{}{}:
	default: // already requested
	}
	select {
	case <-ended:
	case <-ctx.Done():
		return nil
	}
	if current = p.known(); current == seen {
		return nil
	}
	return current
}
