package informer

// lost is where a Bounded handler stood when more waited for it than may.
type lost[T any] struct {
	// root is from before the batch that was too much, and backlog what waited
	// then: undoing it in root gives what the handler has been told.
	root    *root[T]
	backlog []event[T]
}

// cutOff takes the log away from handlers that are too far behind. before is
// the root that was current until now.
func (inf *Informer[T]) cutOff(before *root[T]) {
	bounded := inf.bounded.Load()
	if bounded == nil {
		return
	}
	for _, h := range *bounded {
		h.cutOff(before)
	}
}

func (h *Handle[T]) cutOff(before *root[T]) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.place.chunk == nil || h.inf.log.end.seq-h.place.seq <= uint64(h.options.Limit) {
		return
	}
	h.lost = &lost[T]{root: before}
	for h.place.seq < before.seq {
		events := h.place.ready()
		events = events[:min(uint64(len(events)), before.seq-h.place.seq)]
		h.lost.backlog = append(h.lost.backlog, events...)
		h.place.skip(len(events))
	}
	h.place = position[T]{}
}

// catchUp tells of the difference between what the handler was told last and
// the current root, and goes on from there. It returns the place in the log.
func (h *Handle[T]) catchUp(l *lost[T]) uint64 {
	inf := h.inf
	now, end := inf.now()
	h.moveTo(end)
	// told has what the handler was told last of every key in the backlog: the
	// state before the key's first event there, nil if it did not exist.
	told := make(map[string]*T)
	for i := range l.backlog {
		e := &l.backlog[i]
		switch e.kind {
		case Added:
			if key := inf.config.Key(e.new); !has(told, key) {
				told[key] = nil
			}
		default:
			if key := inf.config.Key(e.old); !has(told, key) {
				told[key] = &e.old
			}
		}
	}
	for key, before := range told {
		var after *T
		if slot, ok := now.keys.get(inf.hash(key), key); ok {
			object := now.objects.get(slot)
			after = &object
		}
		if before == nil && after == nil || before != nil && after != nil && inf.same(*before, *after) {
			continue
		}
		if !h.net(before, after, false) {
			return now.seq
		}
	}
	inf.difference(l.root, now, func(before, after *T) bool {
		object := after
		if object == nil {
			object = before
		}
		return has(told, inf.config.Key(*object)) || h.net(before, after, false)
	})
	return now.seq
}

func has[V any](m map[string]V, key string) bool {
	_, ok := m[key]
	return ok
}

// difference visits every key whose object is not the same in old and new,
// with nil where there is none. Its cost is that of the changes between them.
func (inf *Informer[T]) difference(old, new *root[T], visit func(before, after *T) bool) {
	key := inf.config.Key
	find := func(r *root[T], key string) *T {
		slot, ok := r.keys.get(inf.hash(key), key)
		if !ok {
			return nil
		}
		object := r.objects.get(slot)
		return &object
	}
	changed(&old.objects, &new.objects, func(_ uint32, before, after *T) bool {
		if before != nil && after != nil {
			if inf.identical(*before, *after) {
				return true
			}
			if key(*before) == key(*after) {
				return inf.same(*before, *after) || visit(before, after)
			}
		}
		// Slots are used again, so a key may have come to another one: the slot that
		// it had in old tells of it.
		if before != nil {
			now := find(new, key(*before))
			if (now == nil || !inf.same(*before, *now)) && !visit(before, now) {
				return false
			}
		}
		return after == nil || find(old, key(*after)) != nil || visit(nil, after)
	})
}

// identical tells, for pointers, whether a and b are one; for other types it
// does not know.
func (inf *Informer[T]) identical(a, b T) bool { return inf.pointers && any(a) == any(b) }

// same tells whether a and b, of one key, are the same object in one state.
func (inf *Informer[T]) same(a, b T) bool {
	c := &inf.config
	return c.Compare(c.Revision(a), c.Revision(b)) == 0 && (c.UID == nil || c.UID(a) == c.UID(b))
}
