package oidc

import (
	"context"
	"net/http"
	"sync"
	"time"

	"github.com/go-logr/logr"
)

const (
	// minInterval is between two attempts that tokens bring about.
	minInterval = 10 * time.Second
	// firstRetry doubles with each failure up to maxRetry.
	firstRetry, maxRetry = time.Second, 30 * time.Second
)

// A provider is an issuer with its keys. One goroutine fetches them, run; others
// ask it to.
type provider struct {
	issuer Issuer
	log    logr.Logger
	client *http.Client
	found  chan struct{} // closed when there are keys for the first time
	wake   chan struct{} // size 1: somebody waits for an attempt

	mu sync.Mutex
	// The following are guarded by mu.
	running   bool
	current   *keySet   // never changes once it is here; nil before the first
	attempted time.Time // when the last attempt ended
	ended     chan struct{}
}

// keySet is what was fetched together.
type keySet struct{ list []key }

func newProvider(i Issuer, log logr.Logger) *provider {
	return &provider{issuer: i, log: log, client: newClient(&i),
		found: make(chan struct{}), wake: make(chan struct{}, 1), ended: make(chan struct{})}
}

// run fetches the keys when they are old, or somebody asks, until ctx ends.
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

// wait returns true when it is time for an attempt.
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
			// Who asked may have been too late to see that another's attempt has
			// ended; then it does not wait any more.
			p.mu.Lock()
			soon := p.soon()
			p.mu.Unlock()
			if !soon {
				return true
			}
		}
	}
}

// soon reports whether tokens must not bring about an attempt yet. The caller
// holds mu.
func (p *provider) soon() bool { return time.Since(p.attempted) < minInterval }

// attemptEnded makes fetched the keys that are believed, unless it is nil: then
// the attempt has failed and the old ones stay.
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

// setRunning lets nobody wait for attempts that nobody makes.
func (p *provider) setRunning(running bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.running = running
	p.release()
}

// release ends the waiting of everyone in fresher. The caller holds mu.
func (p *provider) release() {
	close(p.ended)
	p.ended = make(chan struct{})
}

// known are the keys that are believed, nil before they have been found.
func (p *provider) known() *keySet {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.current
}

// fresher returns keys fetched after seen, or nil if there are none to be had: as
// keys were asked for a moment ago, or the issuer does not answer, or ctx has ended.
func (p *provider) fresher(ctx context.Context, seen *keySet) *keySet {
	p.mu.Lock()
	current, ended, hopeless := p.current, p.ended, p.soon() || !p.running
	p.mu.Unlock()
	if current != seen {
		return current
	}
	if hopeless {
		return nil
	}
	select {
	case p.wake <- struct{}{}:
	default: // somebody else has asked
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
