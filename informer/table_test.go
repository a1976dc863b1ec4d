package informer

import (
	"maps"
	"math/rand/v2"
	"testing"
)

// TestTableModel compares tables with maps, and old versions with their original content.
func TestTableModel(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	var current table[int]
	model := map[uint32]int{}
	type version struct {
		table table[int]
		model map[uint32]int
	}
	versions := []version{{current, map[uint32]int{}}}
	for edit := uint64(1); edit <= 100; edit++ {
		for range 1 + r.IntN(30) {
			// The slots are in two shelves, one dense and one sparse.
			slot := uint32(r.IntN(200) + 5000*r.IntN(2))
			if _, ok := model[slot]; ok && r.IntN(2) == 0 {
				current.remove(edit, slot)
				delete(model, slot)
			} else {
				current.set(edit, slot, int(edit))
				model[slot] = int(edit)
			}
		}
		versions = append(versions, version{current, maps.Clone(model)})
		checkPages(t, &current)
	}
	for i, v := range versions {
		if got := maps.Collect(v.table.all()); !maps.Equal(got, v.model) {
			t.Fatalf("version %d: got %v, want %v", i, got, v.model)
		}
		for slot, want := range v.model {
			if got := v.table.get(slot); got != want {
				t.Fatalf("version %d: slot %d has %d, want %d", i, slot, got, want)
			}
		}
	}
}

// checkPages fails if an empty page or shelf is kept.
func checkPages[T any](t *testing.T, table *table[T]) {
	t.Helper()
	if n := len(table.shelves); n > 0 && table.shelves[n-1] == nil {
		t.Fatalf("the last of %d shelves is none", n)
	}
	for i, s := range table.shelves {
		if s == nil {
			continue
		}
		used := false
		for j, p := range s.pages {
			if used = used || p != nil; p != nil && p.used == 0 {
				t.Fatalf("page %d of shelf %d is empty", j, i)
			}
		}
		if !used {
			t.Fatalf("shelf %d is empty", i)
		}
	}
}

// TestEmptiedTableHoldsNothing fills a table and empties it, in one edit and in many.
func TestEmptiedTableHoldsNothing(t *testing.T) {
	for _, edits := range []uint64{1, 7} {
		var current table[int]
		for slot := range uint32(10_000) {
			current.set(1+uint64(slot)%edits, slot, 1)
		}
		for slot := range uint32(10_000) {
			current.remove(10+uint64(slot)%edits, slot)
			checkPages(t, &current)
		}
		if len(current.shelves) != 0 || current.free != nil {
			t.Errorf("%d edits: %d shelves and %d free slots are left", edits, len(current.shelves), len(current.free))
		}
	}
}
