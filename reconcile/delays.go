package reconcile

import "time"

// delays is a heap of keys to be added later. The key that is due first is in front.
type delays[K comparable] []delayed[K]

type delayed[K comparable] struct {
	due      time.Duration
	priority int // the highest requested priority
	item     *item[K]
}

// add schedules it for due, unless it is scheduled earlier already. It reports whether it is now
// the first.
func (d *delays[K]) add(it *item[K], due time.Duration, priority int) bool {
	if it.delay == 0 {
		*d = append(*d, delayed[K]{due, priority, it})
		it.delay = len(*d)
		return d.up(it.delay-1) == 0
	}
	at := it.delay - 1
	was := &(*d)[at]
	was.priority = max(was.priority, priority)
	if due >= was.due {
		return false
	}
	was.due = due
	return d.up(at) == 0
}

// smallHeap is the capacity that a heap always keeps.
const smallHeap = 64

// pop removes and returns the first item.
func (d *delays[K]) pop() delayed[K] {
	s := *d
	first, last := s[0], len(s)-1
	first.item.delay = 0
	if last > 0 {
		s[0] = s[last]
		s[0].item.delay = 1
	}
	s[last] = delayed[K]{}
	*d = s[:last]
	d.down(0)
	if cap(s) > smallHeap && last < cap(s)/4 {
		*d = append(make([]delayed[K], 0, cap(s)/2), s[:last]...)
	}
	return first
}

// up moves the item at i towards the front as necessary and returns its new position.
func (d delays[K]) up(i int) int {
	for i > 0 {
		parent := (i - 1) / 2
		if d[parent].due <= d[i].due {
			break
		}
		d.swap(i, parent)
		i = parent
	}
	return i
}

func (d delays[K]) down(i int) {
	for {
		child := 2*i + 1
		if child >= len(d) {
			return
		}
		if child+1 < len(d) && d[child+1].due < d[child].due {
			child++
		}
		if d[i].due <= d[child].due {
			return
		}
		d.swap(i, child)
		i = child
	}
}

func (d delays[K]) swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].item.delay, d[j].item.delay = i+1, j+1
}
