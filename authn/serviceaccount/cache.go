package serviceaccount

import (
	"crypto/sha256"
	"sync"
	"time"

	"github.com/planekit/planekit/authn/user"
)

// digest stands for a token: tokens themselves are never kept.
type digest [sha256.Size]byte

func digestOf(token string) digest { return sha256.Sum256([]byte(token)) }

// verified is a token whose signature was good. It does not change.
type verified struct {
	// keys are those it was verified with; under others it counts for nothing.
	keys   *keys
	claims claims
	user   *user.Info
	// legacy is the secret that must have the token; empty for those that are bound.
	legacy string
}

// cache remembers which tokens were verified, at most limit of them.
type cache struct {
	limit int

	mu      sync.RWMutex
	entries map[digest]*verified // guarded by mu
}

func newCache(limit int) *cache {
	return &cache{limit: limit, entries: map[digest]*verified{}}
}

// get returns what was verified with just these keys, or nil.
func (c *cache) get(d digest, current *keys) *verified {
	c.mu.RLock()
	defer c.mu.RUnlock()
	if v := c.entries[d]; v != nil && v.keys == current {
		return v
	}
	return nil
}

func (c *cache) drop(d digest) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.entries, d)
}

// put remembers v, and forgets another for it if there is no room.
func (c *cache) put(d digest, v *verified, now time.Time) {
	c.mu.RLock()
	known := c.entries[d] == v
	c.mu.RUnlock()
	if known {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, replaced := c.entries[d]; !replaced && len(c.entries) >= c.limit {
		c.evict(now, v.keys)
	}
	c.entries[d] = v
}

// evict forgets a token that is over, if one is found quickly, or else just any.
func (c *cache) evict(now time.Time, current *keys) {
	const looks = 16
	n := 0
	for d, v := range c.entries {
		if n++; n == looks || n == len(c.entries) || v.keys != current || v.claims.timely(now) != nil {
			delete(c.entries, d)
			return
		}
	}
}
