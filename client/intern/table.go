// Package intern decodes pods so that their equal parts are in memory once. Pods
// that come from one template differ in little more than their names, addresses
// and times; decoded one by one, each has all of the template to itself, and was
// decoded anew.
//
//	pods := typed.Pods(c).WithUnmarshal(intern.New().UnmarshalPod)
//	copy, err := informer.New(informer.Config[*corev1.Pod]{Source: pods, ...})
//
// What is shared must not be changed by anyone, as nothing must that an informer
// holds: that is nearly everything that a decoded pod points to. The strings that
// are a pod's own are parts of one string of some hundred bytes; clone what is to
// outlive the pod by far.
//
// An encoded message is cut in two: the fields that pods of a template have in
// common, put together in the order in which they came, and those that each has
// to itself. The former are the key under which a [Table] has the value that
// they decode to; a field stands for itself in protobuf, so to decode both halves
// one after the other gives what the whole gives. Parts are equal when their
// encodings are.
//
// A Table remembers what came twice, and of that what came lately ([Size], and in the last 5 to 10
// minutes). What it does not remember is decoded as ever and costs a pod its own copy, no more.
package intern

import (
	"hash/maphash"
	"runtime"
	"sync"
	"time"
)

// Size is how much each part of a Table, of which there is one for each processor
// and at most eight, holds in each of its two generations: bytes of encodings,
// and what they decode to, which is some times as large but mostly in use by the
// pods.
const Size = 4 << 20

// maxAge is how long a generation is the younger one at most, so that what nobody asks for any more
// does not stay for ever.
const maxAge = 5 * time.Minute

// maxShards bounds the parts of a Table.
const maxShards = 8

// Table remembers parts of objects. Its methods are safe for concurrent use: who
// comes at the same time takes another part of it, in which nothing is shared
// with the others.
type Table struct{ shards []*shard }

// New returns an empty Table.
func New() *Table {
	t := &Table{shards: make([]*shard, min(runtime.GOMAXPROCS(0), maxShards))}
	for i := range t.shards {
		t.shards[i] = &shard{seed: maphash.MakeSeed()}
	}
	return t
}

// take returns a locked shard: the first that is free, so that as few as possible
// hold the same.
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
	// size is how many bytes young holds.
	size int
	// aging says that age will be called.
	aging bool
	// seen tells what came lately and was not remembered.
	seen filter

	// What follows is used while one object is decoded.

	// key is the skeleton of one message.
	key []byte
	// runs are the own fields of all messages that are being decoded.
	runs []run
	// own is the text of all strings that are the object's own, and spans say
	// which parts of it are to go where.
	own   []byte
	spans []span
}

// part is what an encoding decodes to.
type part struct {
	kind  kind
	key   string
	value any
}

// partOverhead is what a part takes beside its key and value, in bytes.
const partOverhead = 96

func (s *shard) hash(k kind, key []byte) uint64 {
	return maphash.Bytes(s.seed, key) ^ uint64(k)*0x9e3779b97f4a7c15
}

// find returns the value of an encoding, or nil. Then remember says whether it
// has come before and should be put.
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

// ageLater has age called when it is time. mu is held.
func (s *shard) ageLater() {
	if !s.aging && len(s.young)+len(s.old) > 0 {
		s.aging = true
		time.AfterFunc(maxAge, s.age)
	}
}

// age begins a new generation.
func (s *shard) age() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.young, s.old, s.size = make(map[uint64]*part), s.young, 0
	s.key, s.own, s.runs, s.spans = nil, nil, nil, nil // as long as the longest pod
	s.aging = false
	s.ageLater()
}

// filter tells hashes that it has been asked about from others, so that what
// never comes again costs little. It is a Bloom filter of two bits a hash, which
// begins anew before a quarter of them are set: at most one new hash in sixteen
// passes for an old one.
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
