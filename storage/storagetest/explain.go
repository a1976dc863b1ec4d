package storagetest

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/planekit/planekit/storage"
)

// searchLimit bounds the search for an order.
const searchLimit = 30 * time.Second

// Check fails t unless the recorded calls are linearizable: there is one order of the calls that
// explains every answer and contains no call before another that had ended when it began.
func (r *Recorder) Check(t testing.TB) {
	t.Helper()
	if err := r.explain(); err != nil {
		t.Error(err)
	}
}

func (r *Recorder) explain() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	s := &specification{revisions: revisions(r.log)}
	result, info := porcupine.CheckOperationsVerbose(s.model(), r.log, searchLimit)
	switch result {
	case porcupine.Ok:
		return nil
	case porcupine.Unknown:
		return fmt.Errorf("no order of %d calls was found in %v", len(r.log), searchLimit)
	}
	longest := 0
	for _, partition := range info.PartialLinearizationsOperations() {
		for _, order := range partition {
			longest = max(longest, len(order))
		}
	}
	return fmt.Errorf("no order explains what %d calls were answered; the best explains %d", len(r.log), longest)
}

// A written is a value that was written under a key.
type written struct {
	key   storage.Key
	value string
}

// revisions collects the revisions of values from all answers, because a write whose own answer was
// lost has none.
func revisions(log []porcupine.Operation) map[written]storage.Revision {
	found := map[written]storage.Revision{}
	for _, o := range log {
		c, a := o.Input.(call), o.Output.(answer)
		if c.change != nil && c.change.Op == storage.Delete && a.refusal == nil {
			continue // the revision is that of the deletion
		}
		for _, r := range slices.Concat(a.page.Records, []storage.Record{a.record}) {
			if r.Key != "" {
				found[written{r.Key, string(r.Value)}] = r.Revision
			}
		}
	}
	return found
}

// A specification decides which answers a store may give, one call after the other.
type specification struct {
	revisions map[written]storage.Revision
}

// A state is the contents of a store. It is immutable.
type state struct {
	// reached is the highest revision that an answer has contained.
	reached storage.Revision
	records map[storage.Key]version
}

type version struct {
	value             string
	revision, created storage.Revision // -1 if unknown
}

const unseen storage.Revision = -1

func (s *specification) model() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return state{} },
		Step: func(before, input, output any) (bool, any) {
			return s.step(before.(state), input.(call), output.(answer))
		},
		Equal: func(a, b any) bool {
			one, two := a.(state), b.(state)
			return one.reached == two.reached && maps.Equal(one.records, two.records)
		},
		Hash: func(a any) uint64 { return uint64(a.(state).reached) },
	}
}

// step reports whether a store in state b may answer c with a, and returns the next state.
func (s *specification) step(b state, c call, a answer) (bool, state) {
	if c.change != nil {
		return s.commit(b, *c.change, a)
	}
	if c.key != "" {
		stands, exists := b.records[c.key]
		if a.refusal != nil {
			return !exists, b
		}
		return exists && stands.is(a.record), b
	}
	n := 0
	for key := range b.records {
		if strings.HasPrefix(string(key), string(c.prefix)) {
			n++
		}
	}
	if n != len(a.page.Records) || a.page.Revision < b.reached {
		return false, b
	}
	for _, r := range a.page.Records {
		if stands, exists := b.records[r.Key]; !exists || !stands.is(r) {
			return false, b
		}
	}
	return true, state{reached: a.page.Revision, records: b.records}
}

// commit is step for a change.
func (s *specification) commit(b state, c storage.Change, a answer) (bool, state) {
	stands, exists := b.records[c.Key]
	var refusal error
	switch {
	case c.Op == storage.Create && exists:
		refusal = storage.ErrExists
	case c.Op != storage.Create && !exists:
		refusal = storage.ErrNotFound
	case exists && stands.revision != c.Previous:
		refusal = storage.ErrConflict
	}
	if a.lost && refusal != nil {
		return true, b
	}
	if !errors.Is(a.refusal, refusal) {
		return false, b
	}
	if refusal != nil {
		return !exists || stands.is(a.record), b
	}
	after := version{value: string(c.Value), revision: a.record.Revision, created: stands.created}
	if a.lost {
		after.revision = unseen
		if seen, ok := s.revisions[written{c.Key, after.value}]; ok && c.Op != storage.Delete {
			after.revision = seen
		}
	}
	if c.Op == storage.Create {
		after.created = after.revision
	}
	if after.revision != unseen && after.revision <= b.reached {
		return false, b
	}
	if !a.lost && (a.record.Created != after.created || c.Op != storage.Delete && !bytes.Equal(a.record.Value, c.Value) ||
		c.Op == storage.Delete && string(a.record.Value) != stands.value) {
		return false, b
	}
	next := state{reached: max(b.reached, after.revision), records: maps.Clone(b.records)}
	if next.records == nil {
		next.records = map[storage.Key]version{}
	}
	if c.Op == storage.Delete {
		delete(next.records, c.Key)
	} else {
		next.records[c.Key] = after
	}
	return true, next
}

// is reports whether r can be this version.
func (v version) is(r storage.Record) bool {
	return v.value == string(r.Value) && v.revision == r.Revision && v.created == r.Created
}
