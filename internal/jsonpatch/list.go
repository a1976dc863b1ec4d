package jsonpatch

import "slices"

// list holds the items of an array in chunks. An insertion or removal moves the items of one chunk
// instead of the whole array, and only chunks that are opened need memory for their items.
type list struct {
	chunks []chunk
	length int
}

// chunk holds some items of a list: items, or, until one of them is needed, a part of a text.
type chunk struct {
	items       []node
	source      *document
	start, stop int32
	count       int
}

// mostItems is the maximum number of items in a chunk.
const mostItems = 512

// listOf returns the items of the array at.
func (d *document) listOf(at int) *list {
	l := &list{}
	for w := d.walk(at); w.next(); l.length++ {
		if l.length%mostItems == 0 {
			l.chunks = append(l.chunks, chunk{source: d, start: int32(w.start)})
		}
		c := &l.chunks[len(l.chunks)-1]
		c.stop = int32(w.stop)
		c.count++
	}
	return l
}

// open returns the items of a chunk.
func (c *chunk) open() []node {
	if c.items == nil {
		c.items = make([]node, 0, c.count)
		d := c.source
		w := walk{document: d, pos: int(c.start), end: int(c.stop), span: d.spanAt(int(c.start))}
		for w.next() {
			c.items = append(c.items, d.nodeAt(w.start, w.stop))
		}
	}
	return c.items
}

// place returns the chunk of item i and the index in it. i may be the length of a list that is not
// empty.
func (l *list) place(i int) (at, in int) {
	last := len(l.chunks) - 1
	for at = 0; at < last && i >= l.chunks[at].count; at++ {
		i -= l.chunks[at].count
	}
	return at, i
}

func (l *list) get(i int) *node {
	at, in := l.place(i)
	return &l.chunks[at].open()[in]
}

func (l *list) insert(i int, n node) {
	l.length++
	if len(l.chunks) == 0 {
		l.chunks = append(l.chunks, chunk{items: []node{n}, count: 1})
		return
	}
	at, in := l.place(i)
	if l.chunks[at].count == mostItems {
		l.split(at)
		at, in = l.place(i)
	}
	c := &l.chunks[at]
	c.items = slices.Insert(c.open(), in, n)
	c.count++
}

// split splits a chunk in two halves.
func (l *list) split(at int) {
	all := l.chunks[at].open()
	half := slices.Clone(all[mostItems/2:])
	clear(all[mostItems/2:])
	first := all[:mostItems/2]
	l.chunks[at] = chunk{items: first, count: len(first)}
	l.chunks = slices.Insert(l.chunks, at+1, chunk{items: half, count: len(half)})
}

func (l *list) remove(i int) {
	l.length--
	at, in := l.place(i)
	c := &l.chunks[at]
	c.items = slices.Delete(c.open(), in, in+1)
	if c.count--; c.count == 0 {
		l.chunks = slices.Delete(l.chunks, at, at+1)
	}
}
