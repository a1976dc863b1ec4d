package informer

import (
	"math/bits"
	"strings"
)

// draft is the next root while it is being made: of a batch of changes, or of a
// list. One exists at a time.
type draft[T any] struct {
	inf  *Informer[T]
	root *root[T]
	edit uint64
	// start is where this draft's events begin in the log.
	start position[T]
	// taken are the slots that this draft has given to new keys.
	taken []uint32
	// indexed is set once root.indexes is this draft's own.
	indexed bool
	// listed are the slots that a list has named, page by page; nil outside of
	// lists.
	listed []slots
	list   bool
	// moved is set when a key has come or gone since the changes that are being
	// applied were looked up.
	moved bool
}

func (w *writer[T]) draft() *draft[T] {
	inf := w.inf
	w.edit++
	next := *inf.root()
	return &draft[T]{inf: inf, root: &next, edit: w.edit, start: inf.log.end}
}

// old tells whether the copy is already newer than revision, so that whatever
// is said about that revision is known or overtaken.
func (d *draft[T]) old(revision string) bool {
	return d.inf.config.Compare(revision, d.root.revision) < 0
}

// put stores c.new, unless what is there is as new, and tells whether it did.
func (d *draft[T]) put(c *change[T]) bool {
	config := &d.inf.config
	if c.had {
		d.mark(c.slot)
		if config.Compare(config.Revision(c.new), config.Revision(c.old)) <= 0 {
			return false
		}
	}
	if config.Transform != nil {
		c.new = config.Transform(c.new)
	}
	var none T
	switch {
	case !c.had:
		d.add(c)
		d.inf.log.append(event[T]{none, c.new, Added})
	case config.UID != nil && config.UID(c.old) != config.UID(c.new):
		d.inf.log.append(event[T]{c.old, none, Deleted})
		d.inf.log.append(event[T]{none, c.new, Added})
	default:
		d.inf.log.append(event[T]{c.old, c.new, Changed})
	}
	d.root.objects.set(d.edit, c.slot, c.new)
	return true
}

// add gives a new key a slot.
func (d *draft[T]) add(c *change[T]) {
	w := d.inf.writer
	if n := len(w.free); n > 0 {
		c.slot, w.free = w.free[n-1], w.free[:n-1]
	} else {
		c.slot = w.slots
		w.slots++
	}
	d.taken = append(d.taken, c.slot)
	if d.inf.config.AppendKey != nil {
		c.key = strings.Clone(c.key)
	}
	d.root.keys = d.keys().put(d.root.keys, c.key, c.slot)
	d.moved = true
	d.root.size++
	d.mark(c.slot)
}

func (d *draft[T]) keys() editor[string, uint32] {
	return editor[string, uint32]{d.edit, d.inf.hash}
}

// mark remembers that the list has slot.
func (d *draft[T]) mark(slot uint32) {
	if !d.list {
		return
	}
	for uint32(len(d.listed)) <= slot>>pageBits {
		d.listed = append(d.listed, 0)
	}
	d.listed[slot>>pageBits] |= 1 << (slot & pageMask)
}

// unchanged marks the object of key if it is there at revision.
func (d *draft[T]) unchanged(key, revision string) bool {
	slot, found := d.root.keys.get(d.inf.hash(key), key)
	if !found || d.inf.config.Compare(d.inf.config.Revision(d.root.objects.get(slot)), revision) != 0 {
		return false
	}
	d.mark(slot)
	return true
}

// removeUnlisted forgets what the list has not named.
func (d *draft[T]) removeUnlisted() {
	before := d.inf.root().objects
	for n := range len(before.shelves) * shelfSize {
		p := before.page(n)
		if p == nil {
			continue
		}
		gone := p.used
		if n < len(d.listed) {
			gone &^= d.listed[n]
		}
		for ; gone != 0; gone &= gone - 1 {
			d.inf.writer.add(opRemove, p.objects[bits.TrailingZeros32(uint32(gone))])
			if len(d.inf.writer.changes) == together {
				d.apply()
			}
		}
	}
	d.apply()
}

// remove forgets c.old.
func (d *draft[T]) remove(c *change[T]) {
	d.inf.log.append(event[T]{old: c.old, kind: Deleted})
	d.root.keys = d.keys().remove(d.root.keys, c.key)
	d.moved = true
	d.root.objects.clear(d.edit, c.slot)
	d.root.size--
	d.inf.writer.release(c.slot, d.root.size)
}

// publish makes the draft the current view. The root comes first and the
// events after, so that no handler is told of what a view does not show.
func (d *draft[T]) publish(revision string) {
	inf, before := d.inf, d.inf.root()
	d.root.revision = revision
	d.root.seq = inf.log.end.seq
	if d.root.synced && !before.synced {
		inf.syncedAt.Store(inf.log.end.seq)
	}
	inf.current.Store(&published[T]{d.root, inf.log.end})
	inf.log.reveal(d.start)
	inf.cutOff(before)
	if d.root.seq != before.seq || d.root.synced != before.synced {
		inf.writer.owed = true
		inf.writer.wake()
		inf.writer.tidyLater()
	}
	inf.release(d.root)
}

// abandon undoes what the draft has done to what outlives it. It has removed
// nothing: that comes last, when a list is known to be good.
func (d *draft[T]) abandon() {
	d.inf.log.rewind(d.start)
	d.inf.writer.free = append(d.inf.writer.free, d.taken...)
}
