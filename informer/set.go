package informer

import "slices"

// set is a persistent set of slots: what an index finds under one key. It
// refers to no objects, so that it changes only when an object comes under a
// key or leaves it. A nil *set is empty; the sets of a published root never
// change, and one that the current edit made is changed in place.
type set struct {
	edit uint64
	// slots holds up to runSize slots in order; more are in runs.
	slots []uint32
	runs  []*run
}

// run is a part of a large set: one or more slots in order, each above those of
// the run before. A change copies one run and the addresses of all.
type run struct {
	edit  uint64
	slots []uint32
}

const runSize = 512

// with returns s with slot in it.
func (s *set) with(edit uint64, slot uint32) *set {
	if s == nil {
		return &set{edit: edit, slots: []uint32{slot}}
	}
	if s.runs == nil {
		i, found := slices.BinarySearch(s.slots, slot)
		if found {
			return s
		}
		s = s.own(edit)
		s.slots = insert(s.slots, i, slot)
		if len(s.slots) > runSize {
			s.runs, s.slots = halves(edit, s.slots), nil
		}
		return s
	}
	i := s.find(slot)
	j, found := slices.BinarySearch(s.runs[i].slots, slot)
	if found {
		return s
	}
	s = s.own(edit)
	r := s.ownRun(edit, i)
	r.slots = insert(r.slots, j, slot)
	if len(r.slots) > runSize {
		two := halves(edit, r.slots)
		s.runs[i] = two[0]
		s.runs = insert(s.runs, i+1, two[1])
	}
	return s
}

// without returns s without slot; nil when nothing is left.
func (s *set) without(edit uint64, slot uint32) *set {
	if s == nil {
		return nil
	}
	if s.runs == nil {
		i, found := slices.BinarySearch(s.slots, slot)
		switch {
		case !found:
			return s
		case len(s.slots) == 1:
			return nil
		}
		s = s.own(edit)
		s.slots = slices.Delete(s.slots, i, i+1)
		return s
	}
	i := s.find(slot)
	j, found := slices.BinarySearch(s.runs[i].slots, slot)
	if !found {
		return s
	}
	s = s.own(edit)
	r := s.ownRun(edit, i)
	r.slots = slices.Delete(r.slots, j, j+1)
	if len(r.slots) == 0 {
		s.runs = slices.Delete(s.runs, i, i+1)
	}
	if len(s.runs) == 1 && len(s.runs[0].slots) <= runSize/2 {
		s.slots, s.runs = slices.Clone(s.runs[0].slots), nil
	}
	return s
}

// find returns the run that slot belongs to.
func (s *set) find(slot uint32) int {
	i, found := slices.BinarySearchFunc(s.runs, slot, func(r *run, slot uint32) int {
		return int(r.slots[0]) - int(slot)
	})
	if found || i == 0 {
		return i
	}
	return i - 1
}

// own returns a set with s's content that this edit may change. Its runs are
// still shared.
func (s *set) own(edit uint64) *set {
	if s.edit == edit {
		return s
	}
	c := &set{edit: edit}
	if s.runs != nil {
		c.runs = append(make([]*run, 0, len(s.runs)+1), s.runs...)
		return c
	}
	c.slots = append(make([]uint32, 0, len(s.slots)+1), s.slots...)
	return c
}

func (s *set) ownRun(edit uint64, i int) *run {
	r := s.runs[i]
	if r.edit != edit {
		r = &run{edit, append(make([]uint32, 0, len(r.slots)+1), r.slots...)}
		s.runs[i] = r
	}
	return r
}

// halves splits slots, which this edit may change, in two.
func halves(edit uint64, slots []uint32) []*run {
	at := len(slots) / 2
	return []*run{{edit, slots[:at:at]}, {edit, slices.Clone(slots[at:])}}
}
