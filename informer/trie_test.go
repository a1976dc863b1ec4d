package informer

import (
	"hash/maphash"
	"maps"
	"math/rand/v2"
	"testing"
)

// TestTrieModel compares tries with maps, and checks that every published
// version keeps its content however many edits follow.
func TestTrieModel(t *testing.T) {
	random := maphash.MakeSeed()
	hashes := map[string]func(int) uint64{
		"random":     func(k int) uint64 { return maphash.Comparable(random, k) },
		"low bits":   func(k int) uint64 { return uint64(k) },
		"high bits":  func(k int) uint64 { return uint64(k) << 58 },
		"collisions": func(k int) uint64 { return uint64(k % 3) },
	}
	for name, hash := range hashes {
		t.Run(name, func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			r := rand.New(rand.NewPCG(seed, 0))
			var n *node[int, int]
			model := map[int]int{}
			type version struct {
				root  *node[int, int]
				model map[int]int
			}
			var versions []version
			for edit := uint64(1); edit <= 400; edit++ {
				e := editor[int, int]{edit, hash}
				for range 1 + r.IntN(20) {
					k := r.IntN(150)
					if r.IntN(2) == 0 {
						n = e.put(n, k, int(edit))
						model[k] = int(edit)
					} else {
						n = e.remove(n, k)
						delete(model, k)
					}
				}
				versions = append(versions, version{n, maps.Clone(model)})
			}
			for i, v := range versions {
				if got := maps.Collect(v.root.all()); !maps.Equal(got, v.model) {
					t.Fatalf("version %d: got %v, want %v", i, got, v.model)
				}
				for k := range 150 {
					got, ok := v.root.get(hash(k), k)
					if want, exists := v.model[k]; got != want || ok != exists {
						t.Fatalf("version %d: get %d: %d %t, want %d %t", i, k, got, ok, want, exists)
					}
				}
			}
			for k := range 150 {
				n = editor[int, int]{500, hash}.remove(n, k)
			}
			if n != nil {
				t.Fatalf("an emptied trie still has nodes: %+v", n)
			}
		})
	}
}

func TestCompare(t *testing.T) {
	ascending := []string{"", "1", "9", "10", "99", "100", "18446744073709551616"}
	for i, a := range ascending {
		for j, b := range ascending {
			got := compare(a, b)
			if (got < 0) != (i < j) || (got > 0) != (i > j) {
				t.Errorf("compare %q with %q: %d", a, b, got)
			}
		}
	}
	if compare("007", "7") != 0 {
		t.Error("leading zeros count")
	}
}
