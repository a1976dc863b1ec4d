package storagetest

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/planekit/planekit/storage"
)

// steps is the number of operations in one run of the model.
const steps = 400

// A world is the expected contents of a store, as plain maps.
type world struct {
	*env
	random  *rand.Rand
	state   map[storage.Key]storage.Record
	history []storage.Event
	start   storage.Revision
}

// names are the keys of the model: prefixes of each other, neighbours, odd bytes.
var names = []storage.Key{"/", "/a", "/a/", "/a/b", "/a/b/c", "/a/c", "/a0", "/b", "/b/\xff", "/b/\xff\xff", "c", "\xff"}

var prefixes = []storage.Key{"", "/", "/a", "/a/", "/a/b", "/b/\xff", "\xff", "nothing"}

// model makes random operations and compares the store with a world.
func model(e *env, seed uint64) {
	defer func() { e.Logf("seed %d", seed) }()
	w := &world{
		env:    e,
		random: rand.New(rand.NewPCG(seed, 0)),
		state:  map[storage.Key]storage.Record{},
		start:  e.list("", storage.ListOptions{}).Revision,
	}
	live := e.watch("", w.start)
	for range steps {
		switch w.random.IntN(6) {
		case 0:
			w.get()
		case 1:
			w.list()
		default:
			w.commit()
		}
	}
	e.delivers(live, w.history...)
	for _, prefix := range prefixes {
		at := w.revision()
		_, after := split(w.history, prefix, at)
		e.delivers(e.watch(prefix, at), after...)
	}
}

// revision returns a random revision of the world.
func (w *world) revision() storage.Revision {
	if n := w.random.IntN(len(w.history) + 1); n < len(w.history) {
		return w.history[n].Revision
	}
	return w.start
}

func (w *world) commit() {
	key := names[w.random.IntN(len(names))]
	before, exists := w.state[key]
	c := storage.Change{Op: storage.Op(w.random.IntN(3)), Key: key, Value: fmt.Append(nil, w.random.Uint32())}
	if c.Op != storage.Create {
		c.Previous = before.Revision
		if !exists || w.random.IntN(4) == 0 {
			c.Previous = max(w.revision(), 1)
		}
	}
	r, err := w.store.Commit(w.ctx, c)
	if refusal := refusal(c, before, exists); refusal != nil {
		var conflict *storage.ConflictError
		if !errors.Is(err, refusal) || errors.As(err, &conflict) && !same(conflict.Current, before) {
			w.Fatalf("%s %q guarded by %d where %s stands: error %v, want %v", c.Op, key, c.Previous, show(before), err, refusal)
		}
		return
	}
	if err != nil || r.Revision <= w.last() {
		w.Fatalf("%s %q guarded by %d: %s, error %v, after revision %d", c.Op, key, c.Previous, show(r), err, w.last())
	}
	want := storage.Record{Key: key, Value: c.Value, Revision: r.Revision, Created: before.Created}
	event := updated(before, want)
	switch c.Op {
	case storage.Create:
		want.Created = r.Revision
		event = created(want)
	case storage.Delete:
		want.Value = before.Value
		event = deleted(before, r.Revision)
	}
	if !same(r, want) {
		w.Fatalf("%s %q returned %s, want %s", c.Op, key, show(r), show(want))
	}
	w.history = append(w.history, event)
	w.state[key] = want
	if c.Op == storage.Delete {
		delete(w.state, key)
	}
}

// refusal returns the error that a change must fail with, or nil.
func refusal(c storage.Change, before storage.Record, exists bool) error {
	switch {
	case c.Op == storage.Create && exists:
		return storage.ErrExists
	case c.Op != storage.Create && !exists:
		return storage.ErrNotFound
	case c.Previous != before.Revision && c.Op != storage.Create:
		return storage.ErrConflict
	}
	return nil
}

// last returns the revision of the last change.
func (w *world) last() storage.Revision {
	if n := len(w.history); n > 0 {
		return w.history[n-1].Revision
	}
	return w.start
}

// at returns a revision to read at, zero being now, and the expected records under prefix at that
// revision.
func (w *world) at(prefix storage.Key) (storage.Revision, []storage.Record) {
	if w.random.IntN(2) == 0 {
		before, _ := split(w.history, prefix, w.last())
		return 0, stateAfter(before)
	}
	at := w.revision()
	before, _ := split(w.history, prefix, at)
	return at, stateAfter(before)
}

func (w *world) get() {
	key := names[w.random.IntN(len(names))]
	at, records := w.at("")
	i, found := slices.BinarySearchFunc(records, key, func(r storage.Record, k storage.Key) int {
		return cmp.Compare(r.Key, k)
	})
	if found {
		w.stands(records[i], at)
	} else {
		w.absent(key, at)
	}
}

func (w *world) list() {
	prefix := prefixes[w.random.IntN(len(prefixes))]
	o := storage.ListOptions{}
	var want []storage.Record
	o.At, want = w.at(prefix)
	if w.random.IntN(2) == 0 {
		o.After = names[w.random.IntN(len(names))] + storage.Key(strings.Repeat("\x00", w.random.IntN(2)))
		want = slices.DeleteFunc(want, func(r storage.Record) bool { return r.Key <= o.After })
	}
	remaining := 0
	if w.random.IntN(2) == 0 {
		o.Limit = 1 + w.random.IntN(4)
		remaining = max(0, len(want)-o.Limit)
		want = want[:len(want)-remaining]
	}
	w.lists(prefix, o, want, remaining)
}
