package main

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
)

// world is what the server has acknowledged.
type world struct {
	mu     sync.Mutex // guards what follows
	spaces []*space   // alive
	next   int
}

// space is a namespace.
type space struct {
	name string
	// dying is set before the namespace is deleted: from then on nothing in it is sure.
	dying atomic.Bool

	mu          sync.Mutex // guards what follows
	next        int
	records     []*record
	deployments []string
	services    []string
}

// record is a ConfigMap. Whoever operates on it has it locked.
type record struct {
	space *space
	name  string

	mu sync.Mutex // guards what follows
	// acknowledged is the value that the server has confirmed, "" if that it does not exist. maybe are
	// values that a request without an answer may have written.
	acknowledged string
	revision     string
	maybe        []string
}

// absent is the value of a record that does not exist.
const absent = ""

func newWorld() *world { return &world{} }

// pick returns a namespace that is alive, nil without any.
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

// name returns a name that no namespace has had.
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

// oldest takes the oldest namespace out, if there are more than so many.
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

// record returns a record of the namespace, locked: a new one, or one that nobody operates on and
// whose value is sure.
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

// drop forgets a record that does not exist.
func (s *space) drop(r *record) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.records = slices.DeleteFunc(s.records, func(one *record) bool { return one == r })
}

// size is how many records there are.
func (s *space) size() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.records)
}

// take returns one of names at random, "" without any, and removes it if remove is set.
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

// put adds a name, unless there are most already, in which case it returns "".
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

// wrote notes that the server has acknowledged value. r is locked.
func (r *record) wrote(value, revision string) {
	r.acknowledged, r.revision = value, revision
}

// unsure notes that value may have been written. r is locked.
func (r *record) unsure(value string) { r.maybe = append(r.maybe, value) }

// found compares what the server has with what it acknowledged. Nothing is under way: what was
// found is what there is. r is locked.
func (r *record) found(value, revision string) error {
	if value != r.acknowledged && !slices.Contains(r.maybe, value) {
		return fmt.Errorf("configmap %s/%s has the value %q; acknowledged was %q, unanswered were %q", r.space.name, r.name, value, r.acknowledged, r.maybe)
	}
	r.acknowledged, r.revision, r.maybe = value, revision, nil
	return nil
}
