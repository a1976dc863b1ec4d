package reconcile

import (
	"cmp"
	"slices"
)

// ready holds the keys that wait for a worker. It returns keys of the highest priority first;
// within a priority the tenants in turn, one key each; and within a tenant in the order in which
// the keys were added.
type ready[K comparable] struct {
	n      int
	shared bool        // there are tenants
	levels []*level[K] // by priority, the highest last; some may be empty
	top    *level[K]   // the last of levels, or nil
	free   *line[K]    // for reuse, through next
	frees  int
}

// level holds the waiting keys of one priority.
type level[K comparable] struct {
	priority int
	// turn is the line whose turn is next, in a circle of the lines that have keys.
	turn *line[K]
	// lines holds the lines of the circle by tenant. Without tenants, only is the single line.
	lines map[string]*line[K]
	peak  int // the maximum length of lines
	only  line[K]
}

func (l *level[K]) empty() bool { return l.turn == nil && l.only.first == nil }

// line holds the waiting keys of one tenant.
type line[K comparable] struct {
	list[K]
	tenant     string
	prev, next *line[K]
}

const (
	// maxEmpty is the number of levels from which on empty ones are removed. Programs usually have
	// fewer.
	maxEmpty = 8
	// maxFreeLines bounds the lines kept for reuse.
	maxFreeLines = 64
	// maxPeak is the largest size of a map of lines that is kept for reuse, because maps do not
	// shrink.
	maxPeak = 1024
)

func (r *ready[K]) push(it *item[K]) {
	l := r.level(it.priority)
	stand := &l.only
	if r.shared {
		if stand = l.lines[it.tenant]; stand == nil {
			stand = r.open(l, it.tenant)
		}
	}
	stand.push(it)
	r.n++
}

// pop removes and returns the next item. There must be one.
func (r *ready[K]) pop() *item[K] {
	l := r.top
	for at := len(r.levels) - 2; l.empty(); at-- {
		l = r.levels[at]
	}
	stand := &l.only
	if r.shared {
		stand = l.turn
		l.turn = stand.next
	}
	it := stand.pop()
	r.shrink(l, stand)
	return it
}

// remove removes an item from any position.
func (r *ready[K]) remove(it *item[K]) {
	l := r.level(it.priority)
	stand := &l.only
	if r.shared {
		stand = l.lines[it.tenant]
	}
	stand.remove(it)
	r.shrink(l, stand)
}

// shrink updates the counts after an item left a line.
func (r *ready[K]) shrink(l *level[K], stand *line[K]) {
	r.n--
	if r.shared || len(r.levels) > maxEmpty {
		r.tidy(l, stand)
	}
}

// tidy removes an empty line and an empty level.
func (r *ready[K]) tidy(l *level[K], stand *line[K]) {
	if r.shared && stand.first == nil {
		r.close(l, stand)
	}
	if len(r.levels) > maxEmpty && l.empty() {
		r.levels = slices.DeleteFunc(r.levels, func(other *level[K]) bool { return other == l })
		r.top = r.levels[len(r.levels)-1]
	}
}

// level returns the level of priority and creates it if necessary.
func (r *ready[K]) level(priority int) *level[K] {
	if r.top != nil && r.top.priority == priority {
		return r.top // nearly always
	}
	return r.find(priority)
}

func (r *ready[K]) find(priority int) *level[K] {
	at, ok := slices.BinarySearchFunc(r.levels, priority, func(l *level[K], p int) int { return cmp.Compare(l.priority, p) })
	if !ok {
		l := &level[K]{priority: priority}
		r.levels = append(r.levels, nil)
		copy(r.levels[at+1:], r.levels[at:])
		r.levels[at] = l
		r.top = r.levels[len(r.levels)-1]
	}
	return r.levels[at]
}

// open creates a line for tenant. Its turn comes after those of all other lines.
func (r *ready[K]) open(l *level[K], tenant string) *line[K] {
	stand := r.free
	if stand == nil {
		stand = &line[K]{}
	} else {
		r.free = stand.next
		r.frees--
	}
	stand.tenant = tenant
	if l.turn == nil {
		stand.prev, stand.next = stand, stand
		l.turn = stand
	} else {
		stand.prev, stand.next = l.turn.prev, l.turn
		stand.prev.next, stand.next.prev = stand, stand
	}
	if l.lines == nil {
		l.lines = make(map[string]*line[K])
	}
	l.lines[tenant] = stand
	l.peak = max(l.peak, len(l.lines))
	return stand
}

// close removes an empty line from its circle.
func (r *ready[K]) close(l *level[K], stand *line[K]) {
	delete(l.lines, stand.tenant)
	if len(l.lines) == 0 && l.peak > maxPeak {
		l.lines, l.peak = nil, 0
	}
	stand.prev.next, stand.next.prev = stand.next, stand.prev
	if l.turn == stand {
		if l.turn = stand.next; l.turn == stand {
			l.turn = nil
		}
	}
	*stand = line[K]{}
	if r.frees < maxFreeLines {
		stand.next, r.free = r.free, stand
		r.frees++
	}
}
