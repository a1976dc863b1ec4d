package jsonpatch

import "github.com/planekit/planekit/internal/jsonscan"

// node is a value of a document that is being patched: a part of a text or, once it was opened, an
// object or array. A zero node is null.
type node struct {
	source      *document
	inner       *container
	start, stop int32
}

// explicitNull has the null that an operation gives as its value. As in kube-apiserver, a test
// without a value accepts any other null but not this one.
var explicitNull = &document{data: []byte("null")}

// isNull reports whether the value is null.
func (n *node) isNull() bool { return n.inner == nil && n.text()[0] == 'n' }

// container is an object or an array: items, large, or else an object with few members.
type container struct {
	items   *list
	large   *large
	members []member
}

type member struct {
	name string
	gone bool
	node
}

func (d *document) nodeAt(start, stop int) node {
	return node{source: d, start: int32(start), stop: int32(stop)}
}

// root returns the whole text as a value.
func (d *document) root() node { return d.nodeAt(jsonscan.SkipSpace(d.data, 0), len(d.data)) }

// text returns the JSON of a value that has not been opened.
func (n *node) text() []byte {
	if n.source == nil {
		return []byte("null")
	}
	return n.source.data[n.start:n.stop]
}

// open returns the value as an object or array, or nil if it is neither.
func (n *node) open() *container {
	if n.inner != nil || n.source == nil {
		return n.inner
	}
	d := n.source
	switch d.data[n.start] {
	case '[':
		n.inner = &container{items: d.listOf(d.spanAt(int(n.start)))}
	case '{':
		n.inner = d.objectAt(d.spanAt(int(n.start)))
	}
	return n.inner
}

func (d *document) objectAt(at int) *container {
	count := 0
	for w := d.walk(at); w.next() && count <= few; {
		count++
	}
	if count > few {
		return &container{large: &large{base: d.fieldsOf(at)}}
	}
	c := &container{members: make([]member, 0, count)}
	for w := d.walk(at); w.next(); {
		c.set(jsonscan.Unquote(w.name()), d.nodeAt(w.start, w.stop))
	}
	return c
}

// find returns the value with that name, or nil.
func (c *container) find(name string) *node {
	if c.large != nil {
		return c.large.find(name)
	}
	for i := range c.members {
		if m := &c.members[i]; m.name == name {
			return &m.node
		}
	}
	return nil
}

// peek returns the value with that name, which the caller must not change.
func (c *container) peek(name string) (node, bool) {
	var n *node
	if c.large == nil || c.large.changed[name] != nil {
		n = c.find(name)
	} else if f := c.large.base.find([]byte(name)); f != nil {
		return c.large.base.nodeAt(int(f.start), int(f.stop)), true
	}
	if n == nil {
		return node{}, false
	}
	return *n, true
}

// set sets the member with that name to n.
func (c *container) set(name string, n node) {
	if c.large != nil {
		c.large.set(name, n)
		return
	}
	if have := c.find(name); have != nil {
		*have = n
		return
	}
	if c.members = append(c.members, member{name: name, node: n}); len(c.members) <= few {
		return
	}
	c.large = &large{}
	for _, m := range c.members {
		c.large.set(m.name, m.node)
	}
	c.members = nil
}

// drop removes the member with that name and reports whether there was one.
func (c *container) drop(name string) bool {
	if c.large != nil {
		return c.large.drop(name)
	}
	for i := range c.members {
		if c.members[i].name == name {
			c.members = append(c.members[:i], c.members[i+1:]...)
			return true
		}
	}
	return false
}

// size returns the number of members of an object.
func (c *container) size() int {
	if c.large != nil {
		return len(c.large.base.all) + c.large.more
	}
	return len(c.members)
}

// each calls do for every member of an object, with a node that do must not change.
func (c *container) each(do func(name string, n *node) error) error {
	if c.large != nil {
		return c.large.each(do)
	}
	for i := range c.members {
		if err := do(c.members[i].name, &c.members[i].node); err != nil {
			return err
		}
	}
	return nil
}

// large is an object with many members: those of a text, and the changes to them.
type large struct {
	base    fields
	changed map[string]*member
	added   []*member // members in changed that base does not have
	more    int       // number of members beyond those of base; may be negative
}

// touch returns the changed member with that name. It copies the member from base before the first
// change. If base has none, the result is gone.
func (l *large) touch(name string) *member {
	if m := l.changed[name]; m != nil {
		return m
	}
	if l.changed == nil {
		l.changed = map[string]*member{}
	}
	m := &member{name: name, gone: true}
	if f := l.base.find([]byte(name)); f != nil {
		m.gone, m.node = false, l.base.nodeAt(int(f.start), int(f.stop))
	} else {
		l.added = append(l.added, m)
	}
	l.changed[name] = m
	return m
}

func (l *large) find(name string) *node {
	if l.changed[name] == nil && l.base.find([]byte(name)) == nil {
		return nil
	}
	if m := l.touch(name); !m.gone {
		return &m.node
	}
	return nil
}

func (l *large) set(name string, n node) {
	m := l.touch(name)
	if m.gone {
		l.more++
	}
	m.gone, m.node = false, n
}

func (l *large) drop(name string) bool {
	if l.find(name) == nil {
		return false
	}
	m := l.touch(name)
	m.gone, m.node = true, node{}
	l.more--
	return true
}

func (l *large) each(do func(name string, n *node) error) error {
	for i := range l.base.all {
		f := &l.base.all[i]
		name := jsonscan.Unquote(l.base.quoted(f))
		n := l.base.nodeAt(int(f.start), int(f.stop))
		if m := l.changed[name]; m != nil {
			if m.gone {
				continue
			}
			n = m.node
		}
		if err := do(name, &n); err != nil {
			return err
		}
	}
	for _, m := range l.added {
		if m.gone {
			continue
		}
		if err := do(m.name, &m.node); err != nil {
			return err
		}
	}
	return nil
}
