package storagetest

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync/atomic"

	"github.com/planekit/planekit/storage"
)

// An operation is one call as its caller saw it. began and ended are readings of one clock: an
// operation that ended before another began must come before it.
type operation struct {
	began, ended int64
	// revision is the revision of the answer: for a write its own, for a listing the page's. For a
	// read of one key it is unknown.
	revision storage.Revision
	key      storage.Key // of a write or a read; none for a listing
	wrote    bool
	guard    storage.Revision // of a write
	records  []storage.Record // what was written or read
}

// checkLinearizable records concurrent operations and checks that an order exists that explains
// every answer and does not contradict the clock. The revisions determine the order, so that no
// search is necessary.
func checkLinearizable(e *env) {
	const actors, each = 6, 80
	keys := []storage.Key{"/l/1", "/l/2", "/l/3"}
	var clock atomic.Int64
	logs := make([][]operation, actors+1)
	for _, key := range keys {
		o := operation{began: clock.Add(1), key: key, wrote: true, records: []storage.Record{e.create(key, "start")}}
		o.revision, o.ended = o.records[0].Revision, clock.Add(1)
		logs[actors] = append(logs[actors], o)
	}
	seed := rand.Uint64()
	e.Logf("seed %d", seed)
	e.together(actors, func(i int) error {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		for n := range each {
			o := operation{key: keys[random.IntN(len(keys))], began: clock.Add(1)}
			err := e.act(&o, random.IntN(4), fmt.Sprintf("%d/%d", i, n))
			if err != nil {
				return err
			}
			o.ended = clock.Add(1)
			if o.records != nil {
				logs[i] = append(logs[i], o)
			}
		}
		return nil
	})
	e.explain(slices.Concat(logs...))
}

// act performs an operation. A write with a conflict leaves no records.
func (e *env) act(o *operation, kind int, value string) error {
	if kind == 0 {
		o.key = ""
		page, err := e.store.List(e.ctx, "/l/", storage.ListOptions{})
		o.records, o.revision = page.Records, page.Revision
		return err
	}
	r, err := e.store.Get(e.ctx, o.key, 0)
	if err != nil {
		return err
	}
	if kind == 1 {
		o.records = []storage.Record{r}
		return nil
	}
	guard := r.Revision
	runtime.Gosched() // lets other goroutines run in between
	r, err = e.store.Commit(e.ctx, storage.Change{
		Op: storage.Update, Key: o.key, Value: []byte(value), Previous: guard,
	})
	if errors.Is(err, storage.ErrConflict) {
		return nil
	}
	o.guard = guard
	o.wrote, o.revision, o.records = true, r.Revision, []storage.Record{r}
	return err
}

// explain checks every operation against the writes in the order of their revisions.
func (e *env) explain(log []operation) {
	var writes []operation
	for _, o := range log {
		if o.wrote {
			writes = append(writes, o)
		}
	}
	slices.SortFunc(writes, func(a, b operation) int { return cmp.Compare(a.revision, b.revision) })
	for i := 1; i < len(writes); i++ {
		if writes[i].revision == writes[i-1].revision {
			e.Fatalf("revision %d was given twice", writes[i].revision)
		}
	}
	var latest int64 // latest beginning of any write so far, in the order of revisions
	stood := map[storage.Key]storage.Revision{}
	for _, w := range writes {
		if w.ended < latest {
			e.Fatalf("%s was acknowledged before a write with an earlier revision began", show(w.records...))
		}
		latest = max(latest, w.began)
		if w.guard != stood[w.key] {
			e.Fatalf("%s was guarded by %d, and written over %d", show(w.records...), w.guard, stood[w.key])
		}
		stood[w.key] = w.revision
	}
	for _, o := range log {
		if o.wrote {
			continue
		}
		e.explainRead(o, writes)
	}
	e.monotonic(log)
}

// explainRead checks that o returned the state at a moment during o.
func (e *env) explainRead(o operation, writes []operation) {
	asOf := o.revision
	if o.key != "" {
		asOf = o.records[0].Revision
	}
	state := map[storage.Key]storage.Record{}
	for _, w := range writes {
		switch {
		case o.key != "" && w.key != o.key:
		case w.revision <= asOf:
			if w.began > o.ended {
				e.Fatalf("a read as of %d saw %s before that was written", asOf, show(w.records...))
			}
			state[w.key] = w.records[0]
		case w.ended < o.began:
			e.Fatalf("a read as of %d came after %s was acknowledged", asOf, show(w.records...))
		}
	}
	if len(o.records) != len(state) {
		e.Fatalf("a read as of %d: %s, want %d records", asOf, show(o.records...), len(state))
	}
	for _, r := range o.records {
		if !same(r, state[r.Key]) {
			e.Fatalf("a read as of %d: %s, want %s", asOf, show(r), show(state[r.Key]))
		}
	}
}

// monotonic checks that no read is older than one that ended before it began.
func (e *env) monotonic(log []operation) {
	for _, a := range log {
		for _, b := range log {
			if a.ended > b.began || a.wrote || b.wrote || a.key != b.key {
				continue
			}
			was, is := a.revision, b.revision
			if a.key != "" {
				was, is = a.records[0].Revision, b.records[0].Revision
			}
			if is < was {
				e.Fatalf("a read of %q as of %d came after one as of %d", a.key, is, was)
			}
		}
	}
}
