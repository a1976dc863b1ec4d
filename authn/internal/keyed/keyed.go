// Package keyed finds what belongs to a secret, in a time that tells nothing about
// the secrets there are.
//
// A secret is found by a hash which is keyed with a random number of this
// process. Who guesses cannot choose guesses whose hashes come near another's, so it
// says nothing how far a comparison of hashes went. Hashes mean nothing in any
// other process and are never shown to anybody.
//
// There are two of them. A [Table] has few secrets, which are known beforehand: it
// finds one by a fast hash, and then compares all of it in constant time. A
// [Digest] stands for a secret by itself, of which nothing else is kept.
package keyed

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"hash/maphash"
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
	if len(parts) == 1 && len(parts[0]) <= 128 {
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
	seed    maphash.Seed
	entries map[uint64]*entry[T]
}

type entry[T any] struct {
	secret []byte
	value  T
	next   *entry[T] // of the same hash
}

// NewTable returns an empty table with room for size secrets.
func NewTable[T any](size int) *Table[T] {
	return &Table[T]{seed: maphash.MakeSeed(), entries: make(map[uint64]*entry[T], size)}
}

// Add remembers what belongs to a secret, and reports false where something
// does already.
func (t *Table[T]) Add(secret string, value T) bool {
	if _, taken := t.Get(secret); taken {
		return false
	}
	hash := maphash.String(t.seed, secret)
	t.entries[hash] = &entry[T]{[]byte(secret), value, t.entries[hash]}
	return true
}

// Get returns what belongs to a secret. A guess that is not a secret of the table
// is compared with none of them, but for one in 2^64.
func (t *Table[T]) Get(secret string) (value T, ok bool) {
	for e := t.entries[maphash.String(t.seed, secret)]; e != nil; e = e.next {
		if subtle.ConstantTimeCompare(e.secret, []byte(secret)) == 1 {
			return e.value, true
		}
	}
	return value, false
}
