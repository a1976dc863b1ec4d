package upgraded

import "sync"

// Counter limits the number of concurrent connections with a key, such as a user or a node. The
// zero Counter has none.
type Counter struct {
	mu   sync.Mutex
	open map[string]int
}

// Enter counts a connection of key, unless most are open already. After ok, the caller must call
// leave once.
func (c *Counter) Enter(key string, most int) (leave func(), ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.open[key] >= most {
		return nil, false
	}
	if c.open == nil {
		c.open = map[string]int{}
	}
	c.open[key]++
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.open[key]--; c.open[key] == 0 {
			delete(c.open, key)
		}
	}, true
}
