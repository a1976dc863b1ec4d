package reconcile

// delays is a heap of items, the one due first in front.
type delays[K comparable] []*item[K]

// set finds the place of it after due has changed or been set.
func (d *delays[K]) set(it *item[K]) {
	if it.place < 0 {
		it.place = len(*d)
		*d = append(*d, it)
	}
	d.up(it.place)
	d.down(it.place)
}

// pop takes out the first.
func (d *delays[K]) pop() {
	s := *d
	last := len(s) - 1
	s[0].place = -1
	if last > 0 {
		s[0] = s[last]
		s[0].place = 0
	}
	s[last] = nil
	*d = s[:last]
	if last > 1 {
		d.down(0)
	}
	if cap(s) > minPlaces && last < cap(s)/4 {
		*d = append(make([]*item[K], 0, cap(s)/2), s[:last]...)
	}
}

func (d *delays[K]) up(i int) {
	for s := *d; i > 0; {
		parent := (i - 1) / 2
		if s[parent].due <= s[i].due {
			return
		}
		s.swap(i, parent)
		i = parent
	}
}

func (d *delays[K]) down(i int) {
	for s := *d; ; {
		child := 2*i + 1
		if child >= len(s) {
			return
		}
		if child+1 < len(s) && s[child+1].due < s[child].due {
			child++
		}
		if s[i].due <= s[child].due {
			return
		}
		s.swap(i, child)
		i = child
	}
}

func (d delays[K]) swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].place, d[j].place = i, j
}
