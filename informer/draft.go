package informer

import "slices"

// draft is the next root while a batch of changes or a list is applied to it. One exists at a time.
// A draft that is not published has no effect.
type draft[T any] struct {
	inf    *Informer[T]
	root   *root[T]
	edit   uint64
	events []event[T]
	// list is true while a list is applied; listed is then true for the slots of the objects in the
	// list.
	list   bool
	listed []bool
}

// newDraft returns a draft that begins with the current root. edit is a number that
// no earlier draft had.
func newDraft[T any](inf *Informer[T], edit uint64) *draft[T] {
	next := *inf.root()
	next.indexes = slices.Clone(next.indexes)
	return &draft[T]{inf: inf, root: &next, edit: edit}
}

// put stores object unless the cache has an object with the same key that is at least as new.
func (d *draft[T]) put(object T) {
	config := &d.inf.config
	key := config.Key(object)
	var old, none T
	slot, had := d.root.keys.get(d.inf.hash(key), key)
	if had {
		d.mark(slot)
		old = d.root.objects.get(slot)
		if compare(config.Revision(object), config.Revision(old)) <= 0 {
			return
		}
		d.root.objects.set(d.edit, slot, object)
	} else {
		slot = d.root.objects.add(d.edit, object)
		d.mark(slot)
		d.root.keys = d.keys().put(d.root.keys, key, slot)
	}
	if had && config.UID != nil && config.UID(old) != config.UID(object) {
		d.events = append(d.events, event[T]{old, none}, event[T]{none, object})
	} else {
		d.events = append(d.events, event[T]{old, object})
	}
	d.index(slot, change[T]{old, object, had, true})
}

// remove removes the object that has the key of object.
func (d *draft[T]) remove(object T) {
	key := d.inf.config.Key(object)
	slot, had := d.root.keys.get(d.inf.hash(key), key)
	if !had {
		return
	}
	var none T
	old := d.root.objects.get(slot)
	d.root.keys = d.keys().remove(d.root.keys, key)
	d.root.objects.remove(d.edit, slot)
	d.events = append(d.events, event[T]{old, none})
	d.index(slot, change[T]{old, none, true, false})
}

func (d *draft[T]) keys() editor[string, uint32] { return editor[string, uint32]{d.edit, d.inf.hash} }

func (d *draft[T]) index(slot uint32, c change[T]) {
	for i, x := range d.inf.indexes {
		d.root.indexes[i] = x.update(d.root.indexes[i], d.edit, slot, c)
	}
}

// mark records that the list has the object in slot.
func (d *draft[T]) mark(slot uint32) {
	if !d.list {
		return
	}
	for int(slot) >= len(d.listed) {
		d.listed = append(d.listed, false)
	}
	d.listed[slot] = true
}

// unchanged marks the object of key if the cache has it at revision, and reports whether it does.
func (d *draft[T]) unchanged(key, revision string) bool {
	slot, ok := d.root.keys.get(d.inf.hash(key), key)
	if !ok || compare(d.inf.config.Revision(d.root.objects.get(slot)), revision) != 0 {
		return false
	}
	d.mark(slot)
	return true
}

// removeUnlisted removes the objects that are not in the list.
func (d *draft[T]) removeUnlisted() {
	before := d.inf.root().objects
	for slot, object := range before.all() {
		if int(slot) >= len(d.listed) || !d.listed[slot] {
			d.remove(object)
		}
	}
}

// publish makes the draft the current root. Readers see it before handlers receive its changes.
func (d *draft[T]) publish() {
	before := d.inf.current.Load()
	if len(d.events) == 0 && d.root.revision == before.root.revision && d.root.synced == before.root.synced {
		return
	}
	entry := before.next
	entry.events, entry.synced, entry.next = d.events, d.root.synced, newEntry[T]()
	d.inf.current.Store(&published[T]{d.root, entry.next})
	close(entry.ready)
}
