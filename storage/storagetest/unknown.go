package storagetest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/planekit/planekit/storage"
)

// checkInterrupted makes changes whose caller soon gives up. No change is refused, because its guard
// holds: a store that repeats a change must not return the refusal of the repetition. After an unknown
// outcome, the same change is made until it is acknowledged or its own effect is in the way. Each takes
// effect once.
func checkInterrupted(e *env) {
	const changes, longest = 60, 2 * time.Millisecond
	seed := rand.Uint64()
	e.Logf("seed %d", seed)
	random := rand.New(rand.NewPCG(seed, 0))
	w := e.watch("", 0)
	var made []storage.Event
	stood := map[storage.Key]storage.Record{}
	for n := range changes {
		c := storage.Change{Key: storage.Key(fmt.Sprintf("/%d", n%7)), Value: fmt.Append(nil, n)}
		before, exists := stood[c.Key]
		if exists {
			c.Op, c.Previous = storage.Update, before.Revision
		}
		r := e.interrupted(c, time.Duration(random.Int64N(int64(longest))))
		event := created(r)
		if exists {
			event = updated(before, r)
		}
		made, stood[c.Key] = append(made, event), r
	}
	e.delivers(w, made...)
}

// interrupted makes c, first with a caller that gives up after patience, and returns its record.
func (e *env) interrupted(c storage.Change, patience time.Duration) storage.Record {
	e.Helper()
	brief, cancel := context.WithTimeout(e.ctx, patience)
	r, err := e.store.Commit(brief, c)
	cancel()
	if err != nil && storage.Refused(err) {
		e.Fatalf("%s %q guarded by %d, which holds, interrupted: error %v, want none or an unknown outcome", c.Op, c.Key, c.Previous, err)
	}
	for attempt := 1; err != nil; attempt++ {
		if attempt > 10 {
			e.Fatalf("%s %q guarded by %d: no outcome after %d attempts, the last error is %v", c.Op, c.Key, c.Previous, attempt, err)
		}
		if r, err = e.store.Commit(e.ctx, c); err == nil || !storage.Refused(err) {
			continue
		}
		met := err
		if r, err = e.store.Get(e.ctx, c.Key, 0); err != nil || string(r.Value) != string(c.Value) {
			e.Fatalf("%s %q guarded by %d was refused with %v by %s, error %v, want only its own effect in the way", c.Op, c.Key, c.Previous, met, show(r), err)
		}
	}
	return r
}
