package informer

import (
	"hash/maphash"
	"math/rand/v2"
	"strconv"
	"testing"
)

// TestSearchAll looks up keys, half of which are there, side by side: each is
// found as if it were alone.
func TestSearchAll(t *testing.T) {
	number := func(key string) uint64 {
		n, _ := strconv.ParseUint(key, 10, 64)
		return n
	}
	random := maphash.MakeSeed()
	hashes := map[string]func(string) uint64{
		"random":     func(key string) uint64 { return maphash.String(random, key) },
		"low bits":   number,
		"high bits":  func(key string) uint64 { return number(key) << 58 },
		"collisions": func(key string) uint64 { return number(key) % 3 },
	}
	for name, hash := range hashes {
		t.Run(name, func(t *testing.T) {
			seed := rand.Uint64()
			t.Logf("seed %d", seed)
			r := rand.New(rand.NewPCG(seed, 0))
			for _, size := range []int{0, 1, 40, 300, 5000} {
				if name == "collisions" {
					size = min(size, 300)
				}
				var n *node[string, uint32]
				has := map[string]uint32{}
				for range size {
					value := r.Uint32()
					// The empty key is one like others.
					key := ""
					if k := r.IntN(2*size + 1); k > 0 {
						key = strconv.Itoa(k)
					}
					n = editor[string, uint32]{1, hash}.put(n, key, value)
					has[key] = value
				}
				all := []search{{hash: hash("")}}
				for range 200 {
					key := strconv.Itoa(1 + r.IntN(2*size+1))
					all = append(all, search{key: key, hash: hash(key)})
				}
				searchAll(n, all)
				for i := range all {
					want, exists := has[all[i].key]
					if leaf := all[i].leaf; (leaf != nil) != exists || leaf != nil && (leaf.key != all[i].key || leaf.value != want) {
						t.Fatalf("of %d keys, %q leads to %+v, want %d %t", len(has), all[i].key, leaf, want, exists)
					}
				}
			}
		})
	}
}
