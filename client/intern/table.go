// Package intern decodes pods so that their equal parts are in memory once. Pods of one template
// differ in little more than their names, addresses and times. Decoded in the usual way, each pod
// has its own copy of the whole template.
//
//	pods := typed.Pods(c).WithUnmarshal(intern.New().UnmarshalPod)
//	cache, err := informer.For(pods)
//
// Shared parts must not be changed, as nothing that an informer holds may be: that is nearly
// everything that a decoded pod points to. The strings that are a pod's own are parts of one string
// of some hundred bytes; clone those that must outlive the pod by far.
//
// An encoded message is split in two: the fields that pods of a template have in common, joined in
// their original order, and those that differ. The former are the key under which a [Table] has
// their decoded value. A protobuf field does not depend on the others, so decoding the two halves
// one after the other gives the same result as decoding the whole. Parts are equal if their
// encodings are.
//
// A Table keeps parts that it has seen twice, and of these the recent ones ([Size], and the last 5
// to 10 minutes). A part that it does not keep is decoded as usual and costs the pod its own copy.
package intern

import (
	"hash/maphash"
	"runtime"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Size limits each of the two generations in each shard of a Table, in bytes of encodings. Decoded
// values are several times as large, but most are in use by pods anyway. A Table has one shard for
// each processor and at most eight.
const Size = 4 << 20

// maxAge limits the time for which a generation is the younger one, so that unused parts do not
// stay forever.
const maxAge = 5 * time.Minute

// maxShards limits the shards of a Table.
const maxShards = 8

// A Table keeps parts of objects. Its methods are safe for concurrent use: concurrent calls use
// different shards, which share nothing.
type Table struct {
	shards  []*shard
	message *message[corev1.Pod]
}

// New returns an empty Table.
func New() *Table {
	t := &Table{shards: make([]*shard, min(runtime.GOMAXPROCS(0), maxShards)), message: podMessage()}
	for i := range t.shards {
		t.shards[i] = &shard{seed: maphash.MakeSeed()}
	}
	return t
}

// take returns a locked shard: the first free one, so that few shards hold the same parts.
func (t *Table) take() *shard {
	for _, s := range t.shards {
		if s.mu.TryLock() {
			return s
		}
	}
	s := t.shards[len(t.shards)-1]
	s.mu.Lock()
	return s
}

// shard decodes one object at a time.
type shard struct {
	// mu guards all fields.
	mu         sync.Mutex
	seed       maphash.Seed
	young, old map[uint64]*part
	// size is the number of bytes that young holds.
	size int
	// aging is true if a call of age is scheduled.
	aging bool
	// seen records recent parts that are not kept.
	seen filter

	// The following fields are used while one object is decoded.

	// key is the skeleton of one message.
	key []byte
	// runs holds the own fields of all messages that are being decoded.
	runs []run
	// own is the text of all strings that belong to the object; spans records which field receives
	// which part of it.
	own   []byte
	spans []span
}

// part is a decoded value and the encoding that it belongs to.
type part struct {
	kind  kind
	key   string
	value any
}

// partOverhead is the size of a part beside its key and value, in bytes.
const partOverhead = 96

func (s *shard) hash(k kind, key []byte) uint64 {
	return maphash.Bytes(s.seed, key) ^ uint64(k)*0x9e3779b97f4a7c15
}

// find returns the value of an encoding, or nil. In that case remember reports whether the encoding
// has been seen before, so that the caller should put it.
func (s *shard) find(k kind, key []byte) (value any, hash uint64, remember bool) {
	hash = s.hash(k, key)
	p, ok := s.young[hash]
	if !ok {
		if p, ok = s.old[hash]; ok {
			s.add(hash, p)
		}
	}
	if ok {
		if p.kind != k || p.key != string(key) {
			return nil, hash, false
		}
		return p.value, hash, false
	}
	return nil, hash, s.seen.test(hash)
}

func (s *shard) put(k kind, hash uint64, key []byte, value any) {
	s.add(hash, &part{kind: k, key: string(key), value: value})
}

func (s *shard) add(hash uint64, p *part) {
	if s.young == nil || s.size > Size {
		s.young, s.old, s.size = make(map[uint64]*part), s.young, 0
	}
	s.young[hash] = p
	s.size += len(p.key) + partOverhead
	s.ageLater()
}

// ageLater schedules a call of age. The caller holds mu.
func (s *shard) ageLater() {
	if !s.aging && len(s.young)+len(s.old) > 0 {
		s.aging = true
		time.AfterFunc(maxAge, s.age)
	}
}

// age starts a new generation.
func (s *shard) age() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.young, s.old, s.size = make(map[uint64]*part), s.young, 0
	s.key, s.own, s.runs, s.spans = nil, nil, nil, nil // they are as long as the longest pod
	s.aging = false
	s.ageLater()
}

// filter distinguishes hashes that it has been asked about from new ones, so that a part that does
// not repeat costs little. It is a Bloom filter of two bits a hash, which is cleared before a
// quarter of its bits are set: it takes at most one new hash in sixteen for an old one.
type filter struct {
	bits [1 << 11]uint64
	n    int
}

// test reports whether it was asked about hash before.
func (f *filter) test(hash uint64) bool {
	const all = 64 * uint64(len(f.bits))
	if f.n >= int(all/8) {
		*f = filter{}
	}
	a, b := hash%all, hash>>32%all
	word1, word2, bit1, bit2 := &f.bits[a/64], &f.bits[b/64], uint64(1)<<(a%64), uint64(1)<<(b%64)
	if *word1&bit1 != 0 && *word2&bit2 != 0 {
		return true
	}
	*word1 |= bit1
	*word2 |= bit2
	f.n++
	return false
}
