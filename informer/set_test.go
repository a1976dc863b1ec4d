package informer

import (
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSetModel compares sets with maps, and checks that every published version
// keeps its content however many edits follow.
func TestSetModel(t *testing.T) {
	for _, space := range []int{5, 600, 5000} {
		seed := rand.Uint64()
		t.Logf("space %d, seed %d", space, seed)
		r := rand.New(rand.NewPCG(seed, 0))
		var s *set
		model := map[uint32]bool{}
		type version struct {
			set   *set
			slots []uint32
		}
		var versions []version
		for edit := uint64(1); edit <= 300; edit++ {
			// The set grows for a while, then shrinks.
			adds := 8
			if edit > 150 {
				adds = 2
			}
			for range r.IntN(60) {
				slot := uint32(r.IntN(space))
				if r.IntN(10) < adds {
					s = s.with(edit, slot)
					model[slot] = true
				} else {
					s = s.without(edit, slot)
					delete(model, slot)
				}
			}
			versions = append(versions, version{s, slices.Sorted(maps.Keys(model))})
		}
		for i, v := range versions {
			if got := slices.Collect(v.set.all()); !slices.Equal(got, v.slots) {
				t.Fatalf("version %d: got %v, want %v", i, got, v.slots)
			}
		}
		for slot := range uint32(space) {
			s = s.without(500, slot)
		}
		if s != nil {
			t.Fatalf("an emptied set is %+v", s)
		}
	}
}

// all visits the slots in order.
func (s *set) all() iter.Seq[uint32] {
	return func(yield func(uint32) bool) {
		if s == nil {
			return
		}
		for _, r := range s.runs {
			for _, slot := range r.slots {
				if !yield(slot) {
					return
				}
			}
		}
	}
}
