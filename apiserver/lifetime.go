package apiserver

import (
	"context"
	"sync"
)

// A lifetime counts the requests for a kind that may be removed while the server runs.
type lifetime struct {
	// ended is done when the kind has been removed: its watches end then.
	ended context.Context
	end   context.CancelFunc
	// free is called once when the kind has been removed and its last request has ended.
	free func()
	// drained is closed when the kind has been removed and its last write has ended.
	drained chan struct{}

	mu sync.Mutex // guards the fields below
	// requests and writes count the requests in progress.
	requests, writes int
	removed          bool
}

func newLifetime(free func()) *lifetime {
	l := &lifetime{free: free, drained: make(chan struct{})}
	l.ended, l.end = context.WithCancel(context.Background())
	return l
}

// enter counts a request. It returns false if the kind has been removed.
func (l *lifetime) enter(write bool) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.removed {
		return false
	}
	l.requests++
	if write {
		l.writes++
	}
	return true
}

// exit ends the count of a request.
func (l *lifetime) exit(write bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.requests--
	if write {
		l.writes--
	}
	l.settle(write)
}

// remove ends the watches of the kind. It must be in no catalog by now.
func (l *lifetime) remove() {
	l.end()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.removed = true
	l.settle(true)
}

// settle closes drained and frees the kind when nothing uses it any more. mu is held. write is set if the
// number of writes may have become zero.
func (l *lifetime) settle(write bool) {
	if !l.removed {
		return
	}
	if write && l.writes == 0 {
		close(l.drained)
	}
	if l.requests == 0 {
		l.free()
	}
}

// enter finds the kind of the request in the current catalog, and keeps the kind from being freed
// until exit.
func (c *call) enter() {
	for {
		c.kind = c.catalog.kinds[c.info.GVR()]
		if c.kind == nil || c.kind.life == nil || c.kind.life.enter(c.writes()) {
			return
		}
		c.kind = nil
		c.catalog = c.server.catalog.Load() // a removed kind is in none that is current
	}
}

func (c *call) exit() {
	if c.kind != nil && c.kind.life != nil {
		c.kind.life.exit(c.writes())
	}
}

// writes reports whether the request may store something.
func (c *call) writes() bool {
	switch c.info.Verb {
	case "get", "list", "watch":
		return false
	}
	return true
}
