package cache

import (
	"context"
	"time"
)

const (
	// defaultHistory is in changes. A watcher that is further behind is cut off;
	// one that begins further back reads the store's own history first.
	defaultHistory = 4096
	// defaultHistoryBytes is of records. Decoded, and encoded for watchers, a change takes some times
	// as much.
	defaultHistoryBytes = 8 << 20
	// fewest is how many changes are remembered however large they are, so that a watcher which
	// keeps up is not cut off by a few large changes that come at once.
	fewest = 64
	// framed is of how many changes at most, the latest, what was encoded for watchers is kept. One
	// that is further behind encodes for itself.
	framed = 1024
	// defaultHistoryAge is how long etcd and kube-apiserver remember changes by default.
	defaultHistoryAge = 5 * time.Minute
	// ticks is into how many parts the age of a change is divided.
	ticks = 4
)

// history bounds the log of a cache.
type history struct {
	// bytes is the weight of all changes in the log, unshown that of those since the watches were
	// last woken.
	bytes, unshown int
	// framed is the number of the first change whose frames are kept, framedBytes the weight of it and
	// those behind it.
	framed      int64
	framedBytes int
	// marks are the numbers that the next change had at the last ticks, the oldest first.
	marks [ticks]int64
}

// weight returns the bytes of the record that a change brings or removes.
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
	// Whoever waits for few of the changes, or for a round to begin, looks at the
	// others now and then, so as not to fall behind the log.
	if c.end()%int64(max(1, c.config.History/4)) == 0 || c.history.unshown > c.config.HistoryBytes/4 {
		c.showAll()
	}
	// Cutting a quarter at a time makes the copying rare.
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

// excess returns how many of the oldest changes have to go for the others to weigh no more than
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
	// The new array leaves the old one to those who are reading it.
	left := c.log[n:]
	c.log = append(make([]*Event[T], 0, len(left)*5/4+1), left...)
	c.first += int64(n)
	c.past.forget(c.base)
}

// showAll shows all watches all changes. mu is held.
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
		// A watch that nothing concerned for long must not be cut off for that.
		c.showAll()
	}
	copy(marks[:], marks[1:])
	marks[ticks-1] = c.end()
}

// ageEvery has the caches forget old changes until ctx is done.
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
