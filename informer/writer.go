package informer

// change is what happened to one key within one edit.
type change[T any] struct {
	key      string
	old, new T
	// had and has tell whether old and new exist.
	had, has bool
	// objects edits the tries that hold objects.
	objects editor[string, T]
}

// writer is the Sink that an Informer gives to its Source.
type writer[T any] struct{ inf *Informer[T] }

// draft is the next root while it is being made.
type draft[T any] struct {
	inf     *Informer[T]
	root    *root[T]
	objects editor[string, T]
	// start is where this draft's events begin in the log.
	start position[T]
	// indexed is set once root.indexes is this draft's own.
	indexed bool
}

func (w *writer[T]) begin() draft[T] {
	inf := w.inf
	inf.edit++
	next := *inf.root.Load()
	return draft[T]{inf: inf, root: &next, objects: editor[string, T]{inf.edit, inf.hash}, start: inf.log.end}
}

// Replace makes the copy equal to objects, as a diff.
func (w *writer[T]) Replace(revision string, objects []T) {
	if w.old(revision) {
		return
	}
	d := w.begin()
	if d.root.size > 0 {
		listed := make(map[string]struct{}, len(objects))
		for _, object := range objects {
			listed[w.inf.config.Key(object)] = struct{}{}
		}
		for key := range w.inf.root.Load().objects.all() {
			if _, ok := listed[key]; !ok {
				d.remove(key)
			}
		}
	}
	for _, object := range objects {
		d.put(object)
	}
	d.root.synced = true
	d.publish(revision)
	select {
	case <-w.inf.synced:
	default:
		close(w.inf.synced)
	}
}

// Put stores one object.
func (w *writer[T]) Put(revision string, object T) {
	if w.old(revision) {
		return
	}
	d := w.begin()
	d.put(object)
	d.publish(revision)
}

// Remove forgets one object.
func (w *writer[T]) Remove(revision string, object T) {
	if w.old(revision) {
		return
	}
	d := w.begin()
	d.remove(w.inf.config.Key(object))
	d.publish(revision)
}

// Bookmark advances the revision.
func (w *writer[T]) Bookmark(revision string) {
	if !w.old(revision) {
		d := w.begin()
		d.publish(revision)
	}
}

// old tells whether the copy is already newer than revision, so that whatever
// is said about that revision is known or overtaken.
func (w *writer[T]) old(revision string) bool {
	return w.inf.config.Compare(revision, w.inf.root.Load().revision) < 0
}

func (d *draft[T]) put(object T) {
	config := &d.inf.config
	c := change[T]{key: config.Key(object), new: object, has: true}
	c.old, c.had = d.root.objects.get(d.objects.hash(c.key), c.key)
	if c.had && config.Compare(config.Revision(object), config.Revision(c.old)) <= 0 {
		return
	}
	var none T
	if c.had && config.UID != nil && config.UID(c.old) != config.UID(object) {
		d.inf.log.append(event[T]{c.old, none})
		d.inf.log.append(event[T]{none, object})
	} else {
		d.inf.log.append(event[T]{c.old, object})
	}
	d.root.objects = d.objects.put(d.root.objects, c.key, object)
	if !c.had {
		d.root.size++
	}
	d.index(c)
}

func (d *draft[T]) remove(key string) {
	c := change[T]{key: key}
	c.old, c.had = d.root.objects.get(d.objects.hash(key), key)
	if !c.had {
		return
	}
	d.inf.log.append(event[T]{old: c.old})
	d.root.objects = d.objects.remove(d.root.objects, key)
	d.root.size--
	d.index(c)
}

func (d *draft[T]) index(c change[T]) {
	if len(d.inf.indexes) == 0 {
		return
	}
	c.objects = d.objects
	if !d.indexed {
		tables := make([]any, len(d.inf.indexes))
		copy(tables, d.root.indexes)
		d.root.indexes, d.indexed = tables, true
	}
	for i, x := range d.inf.indexes {
		d.root.indexes[i] = x.update(d.root.indexes[i], c)
	}
}

// publish makes the draft the current view. The root comes first and the
// events after, so that no handler is told of what a view does not show.
func (d *draft[T]) publish(revision string) {
	d.root.revision = revision
	d.root.end = d.inf.log.end
	d.inf.root.Store(d.root)
	d.inf.log.reveal(d.start)
	d.inf.wake(d.root)
}
