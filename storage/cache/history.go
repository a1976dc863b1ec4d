package cache

import (
	"context"
	"time"
)

const (
	// defaultHistory is a number of changes. A watch that falls further behind is cut off; one that
	// begins further back reads the store's own history first.
	defaultHistory = 4096
	// defaultHistoryBytes is in bytes of records. Decoded and encoded for watches, a change takes
	// several times as much memory.
	defaultHistoryBytes = 8 << 20
	// fewest is the number of changes that are kept regardless of their size, so that a watch that
	// keeps up is not cut off by a burst of large changes.
	fewest = 64
	// framed is the number of latest changes whose encoded frames are kept. A watch that is further
	// behind encodes for itself.
	framed = 1024
	// defaultHistoryAge is the default of etcd and kube-apiserver.
	defaultHistoryAge = 5 * time.Minute
	// ticks is the number of steps in which changes age.
	ticks = 4
)

// history bounds the log of a cache.
type history struct {
	// bytes is the weight of all changes in the log; unshown is the weight of the changes since the
	// watches were last woken.
	bytes, unshown int
	// framed is the number of the first change whose frames are kept; framedBytes is the weight of
	// the changes from there on.
	framed      int64
	framedBytes int
	// marks holds the number of the next change at each of the last ticks, oldest first.
	marks [ticks]int64
}

// weight returns the size of the record that a change adds or removes, in bytes.
func (e *Event[T]) weight() int {
	if e.Item != nil {
		return len(e.Item.Value)
	}
	if e.Previous != nil {
		return len(e.Previous.Value)
	}
	return 0
}

// remember appends a change to the log. mu is held.
func (c *Cache[T]) remember(event *Event[T]) {
	weight := event.weight()
	c.log = append(c.log, event)
	c.history.bytes += weight
	c.history.unshown += weight
	c.history.framedBytes += weight
	// Wake all watches from time to time, including those that wait for a field or a round, so that
	// they do not fall behind the log.
	if c.end()%int64(max(1, c.config.History/4)) == 0 || c.history.unshown > c.config.HistoryBytes/4 {
		c.showAll()
	}
	// Remove a quarter at a time, so that the log is rarely copied.
	if len(c.log) > c.config.History*5/4 {
		c.forget(len(c.log) - c.config.History)
	}
	if c.history.bytes > c.config.HistoryBytes*5/4 && len(c.log) > fewest*5/4 {
		c.forget(c.excess())
	}
	for c.end()-c.history.framed > framed || c.history.framedBytes > c.config.HistoryBytes/4 && c.end()-c.history.framed > fewest {
		c.dropOldestFrames()
	}
}

// dropOldestFrames drops the frames of the oldest change that has any. mu is held.
func (c *Cache[T]) dropOldestFrames() {
	event := c.log[c.history.framed-c.first]
	c.history.framedBytes -= event.weight()
	event.dropFrames()
	c.history.framed++
}

// excess returns how many of the oldest changes must be removed to bring the log down to
// HistoryBytes. mu is held.
func (c *Cache[T]) excess() int {
	n, bytes := 0, c.history.bytes
	for ; bytes > c.config.HistoryBytes && n < len(c.log)-fewest; n++ {
		bytes -= c.log[n].weight()
	}
	return n
}

// forget removes the oldest n changes from the log. mu is held.
func (c *Cache[T]) forget(n int) {
	if n <= 0 {
		return
	}
	for c.history.framed < c.first+int64(n) {
		c.dropOldestFrames() // a slow watcher may hold the events
	}
	for _, event := range c.log[:n] {
		c.history.bytes -= event.weight()
	}
	c.base = c.log[n-1].Revision
	// Copy the rest: watches may still read the old array.
	left := c.log[n:]
	c.log = append(make([]*Event[T], 0, len(left)*5/4+1), left...)
	c.first += int64(n)
	c.past.forget(c.base)
}

// showAll makes all changes visible to all watches. mu is held.
func (c *Cache[T]) showAll() {
	c.history.unshown = 0
	c.showNow()
	c.waiters.wakeAll()
}

// age implements member.
func (c *Cache[T]) age() {
	c.mu.Lock()
	defer c.mu.Unlock()
	marks := &c.history.marks
	c.forget(int(max(marks[0]-c.first, 0)))
	for c.history.framed < marks[ticks-1] {
		c.dropOldestFrames()
	}
	if marks[ticks-1] != c.end() {
		// Do not cut off a watch because no change concerned it for a long time.
		c.showAll()
	}
	copy(marks[:], marks[1:])
	marks[ticks-1] = c.end()
}

// ageEvery makes the caches discard old changes until ctx is done.
func (f *Feed) ageEvery(ctx context.Context, interval time.Duration) {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		f.mu.Lock()
		members := f.members
		f.mu.Unlock()
		for _, m := range members {
			m.age()
		}
	}
}
