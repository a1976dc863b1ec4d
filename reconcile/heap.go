package reconcile

import "container/heap"

// delays is a heap of items, the one due first in front.
type delays[K comparable] []*item[K]

func (d *delays[K]) set(it *item[K]) {
	if it.place >= 0 {
		heap.Fix(d, it.place)
	} else {
		heap.Push(d, it)
	}
}

func (d *delays[K]) pop() { heap.Pop(d) }

// The methods of heap.Interface.

func (d delays[K]) Len() int           { return len(d) }
func (d delays[K]) Less(i, j int) bool { return d[i].due.Before(d[j].due) }
func (d delays[K]) Swap(i, j int) {
	d[i], d[j] = d[j], d[i]
	d[i].place, d[j].place = i, j
}

func (d *delays[K]) Push(x any) {
	it := x.(*item[K])
	it.place = len(*d)
	*d = append(*d, it)
}

func (d *delays[K]) Pop() any {
	last := len(*d) - 1
	it := (*d)[last]
	(*d)[last] = nil
	*d = (*d)[:last]
	it.place = -1
	return it
}

// ring is a queue that reuses its memory.
type ring[E any] struct {
	elements []E // the length is zero or a power of two
	first, n int
}

func (r *ring[E]) len() int { return r.n }

func (r *ring[E]) push(e E) {
	if r.n == len(r.elements) {
		grown := make([]E, max(16, 2*r.n))
		for i := range r.n {
			grown[i] = r.elements[(r.first+i)&(len(r.elements)-1)]
		}
		r.elements, r.first = grown, 0
	}
	r.elements[(r.first+r.n)&(len(r.elements)-1)] = e
	r.n++
}

func (r *ring[E]) pop() E {
	var none E
	e := r.elements[r.first]
	r.elements[r.first] = none
	r.first = (r.first + 1) & (len(r.elements) - 1)
	r.n--
	return e
}
