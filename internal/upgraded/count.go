package upgraded

import "sync"

// Counter bounds how many connections there are at a time of each kind: of a user,
// of a node. The zero Counter has none.
type Counter struct {
	mu   sync.Mutex
	open map[string]int
}

// Enter counts a connection of key in, unless most are open already. Whoever enters
// leaves once.
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
