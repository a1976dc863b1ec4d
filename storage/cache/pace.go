package cache

import "time"

// Waking a watch and writing to its client costs about as much for one change
// as for ten. So where there are many watches, they are shown what has come in
// rounds, and a round begins the sooner after the last the fewer they are: all of
// them together have restFor for each, which is about four times what a delivery costs
// a server. A change that comes after a rest is shown at once. Watches narrowed to
// a field are few for each change and have no part in this.
const (
	restFor  = 20 * time.Microsecond
	restFrom = 50 // watches; below it there are no rounds
	mostRest = 50 * time.Millisecond
)

// rounds is when watches are shown changes.
type rounds struct {
	// followers are the watches that are not narrowed.
	followers int
	// shown is the number of the first change that they are not shown yet.
	shown int64
	// last is when the last round began; waiting says that the next will begin by
	// itself.
	last    time.Time
	waiting bool
}

// rest is how long a round lasts. There are none where a watch that waits may be
// the one who reads the store's changes. mu is held.
func (c *Cache[T]) rest() time.Duration {
	if c.rounds.followers < restFrom || !c.config.Feed.isRunning() {
		return 0
	}
	return min(time.Duration(c.rounds.followers)*restFor, mostRest)
}

// show begins a round, now or when the last is over. mu is held.
func (c *Cache[T]) show() {
	if c.rounds.waiting {
		return
	}
	if rest := c.rest(); rest > 0 {
		now := time.Now()
		if left := rest - now.Sub(c.rounds.last); left > 0 {
			c.rounds.waiting = true
			time.AfterFunc(left, c.showLater)
			return
		}
		c.rounds.last = now
	}
	c.showNow()
}

func (c *Cache[T]) showLater() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.rounds.waiting = false
	c.rounds.last = time.Now()
	c.showNow()
}

// reveal implements member.
func (c *Cache[T]) reveal() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.showNow()
}

// showNow shows watches all there is. mu is held.
func (c *Cache[T]) showNow() {
	c.rounds.shown = c.end()
	if c.waiters.all != nil {
		close(c.waiters.all)
		c.waiters.all = nil
	}
}

// visible is the number of the first change that w is not shown yet. mu is held.
func (w *Watch[T]) visible() int64 {
	if w.field != "" {
		return w.cache.end()
	}
	return max(w.cache.rounds.shown, w.cache.first)
}
