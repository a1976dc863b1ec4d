package serviceaccount

import (
	"crypto/sha256"
	"sync"
	"time"

	"github.com/planekit/planekit/authn/user"
)

// digest identifies a token. Tokens themselves are never kept.
type digest [sha256.Size]byte

func digestOf(token string) digest { return sha256.Sum256([]byte(token)) }

// verified is an immutable token with a valid signature.
type verified struct {
	// keys are the keys that verified it; with other keys the entry is invalid.
	keys   *keys
	claims claims
	user   *user.Info
	// legacy is the name of the secret that must contain the token; empty for bound tokens.
	legacy string
}

// cache keeps at most limit verified tokens.
type cache struct {
	limit int

	mu      sync.RWMutex
	entries map[digest]*verified // guarded by mu
}

func newCache(limit int) *cache {
	return &cache{limit: limit, entries: map[digest]*verified{}}
}

// get returns the entry if it was verified with the current keys, or nil.
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

// put adds v, and evicts another entry if the cache is full.
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

// evict removes an expired entry if it finds one quickly, and otherwise any entry.
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
