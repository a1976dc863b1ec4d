package keyed

import (
	"hash/maphash"
	"testing"
)

// TestCollision: secrets with equal hashes, which no test can find, are distinguished.
func TestCollision(t *testing.T) {
	table := NewTable[int](0)
	table.Add("a", 1)
	table.Add("b", 2)
	hash := maphash.String(table.seed, "a")
	table.entries[hash].next = &entry[int]{secret: []byte("b"), value: 3}
	table.entries[maphash.String(table.seed, "b")] = table.entries[hash]
	for secret, want := range map[string]int{"a": 1, "b": 3, "c": 0} {
		if got, ok := table.Get(secret); got != want || ok != (want != 0) {
			t.Errorf("Get(%q) = %d, %v, want %d, %v", secret, got, ok, want, want != 0)
		}
	}
}
