package cache

import "time"

// Waking a watch and writing to its client costs about as much for one change as for ten. With many
// watches, changes are therefore delivered in rounds. The interval between rounds is restFor for
// each watch, about four times the cost of a delivery, up to mostRest. A change that comes after a
// full interval is delivered at once. Watches that are narrowed to a field are woken by few changes
// and take no part in rounds.
const (
	restFor  = 20 * time.Microsecond
	restFrom = 50 // watches; with fewer there are no rounds
	mostRest = 50 * time.Millisecond
)

// rounds controls when watches see changes.
type rounds struct {
	// followers counts the watches that are not narrowed.
	followers int
	// shown is the number of the first change that followers do not see yet.
	shown int64
	// last is the start of the last round. waiting is true while the timer of the next round runs.
	last    time.Time
	waiting bool
}

// rest returns the interval between rounds. It is zero without Run, because a waiting watch may
// then be the one that reads the store. mu is held.
func (c *Cache[T]) rest() time.Duration {
	if c.rounds.followers < restFrom || !c.config.Feed.isRunning() {
		return 0
	}
	return min(time.Duration(c.rounds.followers)*restFor, mostRest)
}

// show begins a round, now or when the interval since the last is over. mu is held.
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

// flush implements member.
func (c *Cache[T]) flush() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.showNow()
}

// showNow makes all changes visible and wakes the watches. mu is held.
func (c *Cache[T]) showNow() {
	c.rounds.shown = c.end()
	if c.waiters.all != nil {
		close(c.waiters.all)
		c.waiters.all = nil
	}
}

// visible returns the number of the first change that w does not see yet. mu is held.
func (w *Watch[T]) visible() int64 {
	if w.field != "" {
		return w.cache.end()
	}
	return max(w.cache.rounds.shown, w.cache.first)
}
