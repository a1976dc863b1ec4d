// Package keyed looks up values by secrets without revealing the secrets through timing.
//
// A secret is looked up by a hash that is keyed with a random number of this process. An attacker
// cannot choose guesses whose hashes are close to another's, so that the duration of a comparison
// of hashes reveals nothing. Hashes have no meaning in other processes and must not be published.
//
// A [Table] is for a few known secrets: it finds one by a fast hash and then compares it completely
// in constant time. A [Digest] replaces a secret that must not be kept.
package keyed

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"hash/maphash"
)

// Digest identifies a secret.
type Digest [sha256.Size]byte

// Key makes digests. It must come from [NewKey] and must not change.
type Key [sha256.Size]byte

// NewKey returns a random key.
func NewKey() Key {
	var k Key
	rand.Read(k[:]) // never fails (crypto/rand)
	return k
}

// Digest returns the digest of parts. Different splits of the same bytes have different digests. It
// does not allocate for parts of up to about 2,000 bytes, such as tokens.
func (k *Key) Digest(parts ...string) Digest {
	if len(parts) == 1 && len(parts[0]) <= 128 {
		var short [sha256.Size + 8 + 128]byte // clearing it costs half as much as the other
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

// Table looks up values by secrets. Use [NewTable] to create one. Once the table is filled, Get is
// safe for concurrent use.
type Table[T any] struct {
	seed    maphash.Seed
	entries map[uint64]*entry[T]
}

type entry[T any] struct {
	secret []byte
	value  T
	next   *entry[T] // with the same hash
}

// NewTable returns an empty table with room for size secrets.
func NewTable[T any](size int) *Table[T] {
	return &Table[T]{seed: maphash.MakeSeed(), entries: make(map[uint64]*entry[T], size)}
}

// Add adds a value for a secret. It returns false if the table has one already.
func (t *Table[T]) Add(secret string, value T) bool {
	if _, taken := t.Get(secret); taken {
		return false
	}
	hash := maphash.String(t.seed, secret)
	t.entries[hash] = &entry[T]{[]byte(secret), value, t.entries[hash]}
	return true
}

// Get returns the value for a secret. An unknown secret is not compared with any secret of the
// table, except with a probability of 2^-64.
func (t *Table[T]) Get(secret string) (value T, ok bool) {
	for e := t.entries[maphash.String(t.seed, secret)]; e != nil; e = e.next {
		if subtle.ConstantTimeCompare(e.secret, []byte(secret)) == 1 {
			return e.value, true
		}
	}
	return value, false
}
