// Package keyed finds what belongs to a secret without keeping the secret, and
// in a time that tells nothing about the secrets there are.
//
// A secret is known by its digest, which is keyed with a random number of this
// process. Who guesses cannot choose guesses whose digests come near another's,
// so it says nothing how far a comparison of digests went. Digests mean
// nothing in any other process and are never shown to anybody.
package keyed

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
)

// Digest stands for a secret.
type Digest [sha256.Size]byte

// Key makes digests. It must come from [NewKey] and not change.
type Key [sha256.Size]byte

// NewKey returns a random key.
func NewKey() Key {
	var k Key
	rand.Read(k[:]) // never fails (crypto/rand)
	return k
}

// Digest returns the digest of parts, of which "ab", "c" are others than "a",
// "bc". It allocates nothing as long as they are within some 2,000 bytes, as
// tokens are.
func (k *Key) Digest(parts ...string) Digest {
	if n := len(parts); n == 1 && len(parts[0]) <= 128 {
		var short [sha256.Size + 8 + 128]byte // half the price of clearing the other
		return k.digest(short[:0], parts)
	}
	var room [2048]byte
	return k.digest(room[:0], parts)
}

func (k *Key) digest(b []byte, parts []string) Digest {
	b = append(b, k[:]...)
	for _, part := range parts {
		b = binary.BigEndian.AppendUint64(b, uint64(len(part)))
		b = append(b, part...)
	}
	return sha256.Sum256(b)
}

// Table finds what belongs to a secret. The zero value is of no use; see
// [NewTable]. Once it is filled, Get may be called by many at a time.
type Table[T any] struct {
	key     Key
	entries map[Digest]entry[T]
}

type entry[T any] struct {
	digest Digest
	value  T
}

// NewTable returns an empty table with room for size secrets.
func NewTable[T any](size int) *Table[T] {
	return &Table[T]{key: NewKey(), entries: make(map[Digest]entry[T], size)}
}

// Add remembers what belongs to a secret, and reports false where something
// does already.
func (t *Table[T]) Add(secret string, value T) bool {
	d := t.key.Digest(secret)
	if _, taken := t.entries[d]; taken {
		return false
	}
	t.entries[d] = entry[T]{d, value}
	return true
}

// Get returns what belongs to a secret.
func (t *Table[T]) Get(secret string) (T, bool) {
	d := t.key.Digest(secret)
	e := t.entries[d]
	if subtle.ConstantTimeCompare(e.digest[:], d[:]) != 1 {
		var none T
		return none, false
	}
	return e.value, true
}
