package informer

import "slices"

// set is a persistent set of slots: the value of an index key. It refers to no objects, so that it
// changes only when an object is added under the key or removed. A nil *set is empty. The sets of a
// published root never change; the ones that the current edit made are changed in place.
type set struct {
	edit uint64
	runs []run
}

// run is a part of a set: one or more slots in order, each greater than those of the previous run.
// A change copies one run and the headers of all.
type run struct {
	edit  uint64
	slots []uint32
}

const runSize = 512

// with returns s with slot in it.
func (s *set) with(edit uint64, slot uint32) *set {
	if s == nil {
		return &set{edit, []run{{edit, []uint32{slot}}}}
	}
	i, j, found := s.find(slot)
	if found {
		return s
	}
	s = s.own(edit, i)
	slots := slices.Insert(s.runs[i].slots, j, slot)
	if s.runs[i].slots = slots; len(slots) > runSize {
		s.runs[i].slots = slices.Clone(slots[:runSize/2])
		s.runs = slices.Insert(s.runs, i+1, run{edit, slices.Clone(slots[runSize/2:])})
	}
	return s
}

// without returns s without slot, or nil if no slot is left.
func (s *set) without(edit uint64, slot uint32) *set {
	if s == nil {
		return nil
	}
	i, j, found := s.find(slot)
	if !found {
		return s
	}
	s = s.own(edit, i)
	if r := &s.runs[i]; len(r.slots) > 1 {
		r.slots = slices.Delete(r.slots, j, j+1)
		return s
	}
	if s.runs = slices.Delete(s.runs, i, i+1); len(s.runs) == 0 {
		return nil
	}
	return s
}

// find returns the run that contains slot, or would contain it, and its place in that run.
func (s *set) find(slot uint32) (i, j int, found bool) {
	i, found = slices.BinarySearchFunc(s.runs, slot, func(r run, slot uint32) int { return int(r.slots[0]) - int(slot) })
	if !found && i > 0 {
		i--
	}
	j, found = slices.BinarySearch(s.runs[i].slots, slot)
	return i, j, found
}

// own returns a set with the content of s of which this edit may change run i. Each copy has room
// for one more slot, because most changes add one.
func (s *set) own(edit uint64, i int) *set {
	if s.edit != edit {
		s = &set{edit, append(make([]run, 0, len(s.runs)+1), s.runs...)}
	}
	if r := &s.runs[i]; r.edit != edit {
		*r = run{edit, append(make([]uint32, 0, len(r.slots)+1), r.slots...)}
	}
	return s
}
