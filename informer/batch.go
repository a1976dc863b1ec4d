package informer

import "unsafe"

// together is how many changes are stored side by side. Nearly all that a
// change touches has to come from memory - the object, the one that it
// replaces, their strings, the nodes on the way to them - and each of these is
// found through the one before. So the changes of a batch take each step
// together, and the processor waits for what many of them need at once; for a
// few tens the caches keep it until the next step.
const together = 64

// change is what happens to one key within one edit. While it is being
// prepared, new is the object that names the key also when it is removed.
type change[T any] struct {
	key  string
	slot uint32
	// had and has tell whether old and new exist.
	had, has bool
	old, new T
}

// add takes an object for the next apply.
func (w *writer[T]) add(kind opKind, object T) {
	w.changes = append(w.changes, change[T]{new: object, has: kind == opPut})
}

// store makes one draft of a batch.
func (w *writer[T]) store(batch []op[T]) {
	d := w.draft()
	for i := range batch {
		o := &batch[i]
		if d.old(o.revision) {
			continue
		}
		d.root.revision = o.revision
		if o.kind == opBookmark {
			continue
		}
		w.add(o.kind, o.object)
		if len(w.changes) == together {
			d.apply()
		}
	}
	d.apply()
	d.publish(d.root.revision)
}

// apply makes the changes that have been added.
func (d *draft[T]) apply() {
	w := d.inf.writer
	d.name()
	w.touched += searchAll(d.root.keys, w.searches)
	d.touch()
	d.moved = false
	made := w.changes[:0]
	for i := range w.changes {
		c := w.changes[i]
		d.locate(&c, &w.searches[i])
		switch {
		case c.has:
			if d.put(&c) {
				made = append(made, c)
			}
		case c.had:
			d.remove(&c)
			made = append(made, c)
		}
	}
	d.index(made)
	// Nothing that has been replaced stays in memory.
	clear(w.changes)
	clear(w.searches)
	w.changes, w.searches = w.changes[:0], w.searches[:0]
}

// name writes the keys of all changes to a buffer, or has them made. What that
// needs of the objects is read before: how long a name is decides what is done
// next, and waiting for one the processor would not come to the others.
func (d *draft[T]) name() {
	w, config := d.inf.writer, &d.inf.config
	w.keys = w.keys[:0]
	for i := range w.changes {
		w.read(w.changes[i].new)
	}
	for i := range w.changes {
		c := &w.changes[i]
		if config.AppendKey == nil {
			c.key = config.Key(c.new)
		} else {
			begin := len(w.keys)
			w.keys = config.AppendKey(w.keys, c.new)
			// To look up a key no string of its own is needed.
			c.key = unsafe.String(unsafe.SliceData(w.keys[begin:]), len(w.keys)-begin)
		}
	}
	// Apart from the writing, for which hashing would have to wait.
	for i := range w.changes {
		key := w.changes[i].key
		w.searches = append(w.searches, search{key: key, hash: d.inf.hash(key)})
	}
}

// touch reads of what will be replaced what comparing will need. Its answers
// are not used: an earlier change of the batch may make them wrong.
func (d *draft[T]) touch() {
	w := d.inf.writer
	for i := range w.changes {
		if leaf := w.searches[i].leaf; leaf != nil {
			w.changes[i].old = d.root.objects.get(leaf.value)
		}
	}
	for i := range w.changes {
		if w.searches[i].leaf != nil {
			w.read(w.changes[i].old)
		}
	}
}

// locate fills in what is there of c's key.
func (d *draft[T]) locate(c *change[T], s *search) {
	var none T
	if d.moved {
		c.slot, c.had = d.root.keys.get(s.hash, s.key)
	} else if c.had = s.leaf != nil; c.had {
		c.slot = s.leaf.value
	}
	if c.old = none; c.had {
		c.old = d.root.objects.get(c.slot)
	}
	if !c.has {
		c.new = none
	}
}

func (d *draft[T]) index(changes []change[T]) {
	for i, x := range d.inf.indexes {
		table, same := x.update(d.root.indexes[i], d.edit, changes)
		if same {
			continue
		}
		if !d.indexed {
			d.root.indexes, d.indexed = append([]any(nil), d.root.indexes...), true
		}
		d.root.indexes[i] = table
	}
}

// read reads the revision of object.
func (w *writer[T]) read(object T) {
	if r := w.inf.config.Revision(object); r != "" {
		w.touched += uint32(r[0])
	}
}
