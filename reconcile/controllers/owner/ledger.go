package owner

import (
	"context"
	"fmt"
	"sync"
)

// Ledger records, by owner, the writes that a controller made for that owner, so that the controller
// decides nothing for it before the caches show them. The zero Ledger is empty and ready for use.
type Ledger struct {
	mu     sync.Mutex
	writes map[string][]write // guarded by mu
}

// write is a revision that cache must reach.
type write struct {
	cache    Waiter
	revision string
}

// Waiter is the part of a [localcache.Cache] that waits for a revision.
type Waiter interface {
	WaitFor(ctx context.Context, revision string) error
}

// Add records that a write for owner was stored with a revision, which cache will show.
func (l *Ledger) Add(owner string, cache Waiter, revision string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.writes == nil {
		l.writes = make(map[string][]write)
	}
	l.writes[owner] = append(l.writes[owner], write{cache, revision})
}

// Wait returns when the caches show all writes that were recorded for owner. Calls for the same
// owner must not be concurrent.
func (l *Ledger) Wait(ctx context.Context, owner string) error {
	for {
		l.mu.Lock()
		writes := l.writes[owner]
		if len(writes) == 0 {
			delete(l.writes, owner)
			l.mu.Unlock()
			return nil
		}
		last := writes[len(writes)-1]
		l.mu.Unlock()
		if err := last.cache.WaitFor(ctx, last.revision); err != nil {
			return fmt.Errorf("wait for the cache: %w", err)
		}
		l.mu.Lock()
		l.writes[owner] = l.writes[owner][:len(writes)-1]
		l.mu.Unlock()
	}
}
