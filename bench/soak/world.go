package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
)

// world is the acknowledged state of the server.
type world struct {
	mu     sync.Mutex // guards the following fields
	spaces []*space   // alive
	next   int
}

// space is a namespace.
type space struct {
	name string
	// dying is set before the namespace is deleted. From then on its contents are uncertain.
	dying atomic.Bool

	mu          sync.Mutex // guards the following fields
	next        int
	records     []*record
	deployments []string
	services    []string
}

// record is a ConfigMap. An operation locks it.
type record struct {
	space *space
	name  string

	mu sync.Mutex // guards the following fields
	// acknowledged is the value that the server has confirmed, or "" if it has confirmed that the
	// record does not exist. maybe holds values that requests without an answer may have written.
	acknowledged string
	revision     string
	maybe        []string
}

// absent is the value of a record that does not exist.
const absent = ""

func newWorld() *world { return &world{} }

// pick returns a random namespace of alive, or nil if there is none.
func (w *world) pick(random *rand.Rand) *space {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.spaces) == 0 {
		return nil
	}
	return w.spaces[random.IntN(len(w.spaces))]
}

// alive returns all namespaces that are alive.
func (w *world) alive() []*space {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.spaces)
}

// name returns an unused name for a namespace.
func (w *world) name() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.next++
	return fmt.Sprintf("soak-%d", w.next)
}

func (w *world) add(s *space) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.spaces = append(w.spaces, s)
}

// oldest removes the oldest namespace and returns it, if there are more than the given number.
func (w *world) oldest(more int) *space {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.spaces) <= more {
		return nil
	}
	s := w.spaces[0]
	w.spaces = w.spaces[1:]
	s.dying.Store(true)
	return s
}

// record returns a locked record of the namespace: a new one, or one that is certain and that no
// other operation uses.
func (s *space) record(random *rand.Rand, create bool) *record {
	s.mu.Lock()
	defer s.mu.Unlock()
	if create {
		s.next++
		r := &record{space: s, name: fmt.Sprintf("map-%d", s.next)}
		r.mu.Lock()
		s.records = append(s.records, r)
		return r
	}
	for range 4 {
		if len(s.records) == 0 {
			return nil
		}
		r := s.records[random.IntN(len(s.records))]
		if !r.mu.TryLock() {
			continue
		}
		if len(r.maybe) == 0 && r.acknowledged != absent {
			return r
		}
		r.mu.Unlock()
	}
	return nil
}

// drop removes a record that does not exist.
func (s *space) drop(r *record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records = slices.DeleteFunc(s.records, func(one *record) bool { return one == r })
}

// size returns the number of records.
func (s *space) size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.records)
}

// take returns a random one of names, or "" if there are none, and removes it if remove is set.
func (s *space) take(names *[]string, random *rand.Rand, remove bool) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(*names) == 0 {
		return ""
	}
	i := random.IntN(len(*names))
	name := (*names)[i]
	if remove {
		*names = slices.Delete(*names, i, i+1)
	}
	return name
}

// put adds a name and returns it, or returns "" if there are most already.
func (s *space) put(names *[]string, prefix string, most int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(*names) >= most {
		return ""
	}
	s.next++
	name := fmt.Sprintf("%s-%d", prefix, s.next)
	*names = append(*names, name)
	return name
}

// wrote records that the server has acknowledged value. r is locked.
func (r *record) wrote(value, revision string) {
	r.acknowledged, r.revision = value, revision
}

// unsure records that value may have been written. r is locked.
func (r *record) unsure(value string) { r.maybe = append(r.maybe, value) }

// found compares the server's value with the acknowledged one. No request is in progress, so the
// found value becomes the acknowledged one. r is locked.
func (r *record) found(value, revision string) error {
	if value != r.acknowledged && !slices.Contains(r.maybe, value) {
		return fmt.Errorf("configmap %s/%s has the value %q; acknowledged was %q, unanswered were %q", r.space.name, r.name, value, r.acknowledged, r.maybe)
	}
	r.acknowledged, r.revision, r.maybe = value, revision, nil
	return nil
}
