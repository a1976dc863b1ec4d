// Package bucket limits how often something is done: a bucket of tokens, of which each use takes one,
// and which is filled at a steady rate.
package bucket

import (
	"sync"
	"time"
)

// Bucket is a bucket of tokens. A nil Bucket has no limit. It is safe for concurrent use.
type Bucket struct {
	perSecond, size float64

	mu sync.Mutex
	// mu guards the fields below. The bucket had left tokens at the time at.
	left float64
	at   time.Time
}

// New returns a full bucket of size tokens that gets perSecond tokens in a second; nil if perSecond is
// not positive.
func New(perSecond, size int) *Bucket {
	if perSecond <= 0 {
		return nil
	}
	return &Bucket{perSecond: float64(perSecond), size: float64(size), left: float64(size)}
}

// Take takes a token at a time that must not be before that of an earlier call. If there is none, it
// returns false and how long it takes until there is one.
func (b *Bucket) Take(now time.Time) (wait time.Duration, ok bool) {
	if b == nil {
		return 0, true
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if passed := now.Sub(b.at); passed > 0 {
		if !b.at.IsZero() {
			b.left = min(b.size, b.left+passed.Seconds()*b.perSecond)
		}
		b.at = now
	}
	// A wait is rounded to nanoseconds, which may leave less than a whole token.
	const whole = 1 - 1e-6
	if b.left < whole {
		return time.Duration((1 - b.left) / b.perSecond * float64(time.Second)), false
	}
	b.left = max(b.left-1, 0)
	return 0, true
}
