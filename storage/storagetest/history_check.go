package storagetest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync/atomic"

	"github.com/planekit/planekit/storage"
)

// checkHistory has goroutines create, update, delete and read the same few keys while some answers
// are lost, and searches for an order that explains all answers. checkLinearizable knows the order
// from the revisions; here it must also contain refusals and lost answers, which have none.
func checkHistory(e *env) {
	const actors, each, loseEvery = 5, 60, 25
	seed := rand.Uint64()
	e.Logf("seed %d", seed)
	var changes atomic.Int64
	log := Record(LoseReply(e.store, func(storage.Change) bool { return changes.Add(1)%loseEvery == 0 }))
	e.together(actors, func(i int) error {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		held := map[storage.Key]storage.Revision{} // as this goroutine last saw them
		for n := range each {
			key := storage.Key(fmt.Sprintf("/h/%d", random.IntN(3)))
			runtime.Gosched() // lets other goroutines run in between
			if err := e.touch(log, held, key, fmt.Sprintf("%d/%d", i, n), random); err != nil {
				return err
			}
		}
		return nil
	})
	if err := log.explain(); err != nil {
		e.Fatalf("%v", err)
	}
}

// touch makes one call on key, and updates held with the revision that it learns.
func (e *env) touch(log *Recorder, held map[storage.Key]storage.Revision, key storage.Key, value string, random *rand.Rand) error {
	c := storage.Change{Op: storage.Op(random.IntN(3)), Key: key, Value: []byte(value)}
	var r storage.Record
	var err error
	switch kind := random.IntN(5); {
	case kind == 0:
		_, err := log.List(e.ctx, "/h/", storage.ListOptions{})
		return err
	case kind == 1 || c.Op != storage.Create && held[key] == 0:
		r, err = log.Get(e.ctx, key, 0)
	default:
		if c.Op != storage.Create {
			c.Previous = held[key]
		}
		if c.Op == storage.Delete {
			c.Value = nil
		}
		r, err = log.Commit(e.ctx, c)
	}
	held[key] = r.Revision
	var conflict *storage.ConflictError
	switch {
	case errors.As(err, &conflict):
		held[key] = conflict.Current.Revision
	case errors.Is(err, storage.ErrNotFound), errors.Is(err, storage.ErrExists), errors.Is(err, ErrLost), err == nil:
	default:
		return err
	}
	return nil
}
