package storagetest

import (
	"context"
	"errors"
	"fmt"

	"github.com/planekit/planekit/storage"
)

// checkRevision checks the result of storage.Current, if the store implements it.
func checkRevision(e *env) {
	now := func() storage.Revision {
		e.Helper()
		r, err := storage.Now(e.ctx, e.store)
		if err != nil {
			e.Fatalf("current revision: %v", err)
		}
		return r
	}
	start := now()
	if start <= 0 {
		e.Fatalf("the revision of an empty store is %d, want one above zero", start)
	}
	a := e.create("/a", "one")
	if start >= a.Revision {
		e.Errorf("the revision was %d before a create took %d", start, a.Revision)
	}
	// The revision is reached: reads at it succeed, and a watch after it misses nothing.
	at := now()
	if at < a.Revision {
		e.Errorf("the revision is %d after a create took %d", at, a.Revision)
	}
	e.stands(a, at)
	f := e.watch("/", at)
	b := e.update(a, "two")
	e.delivers(f, updated(a, b))
	e.freshRevision(b)
	done, cancel := context.WithCancel(e.ctx)
	cancel()
	if _, err := storage.Now(done, e.store); !errors.Is(err, context.Canceled) {
		e.Errorf("current revision with a cancelled context: error %v", err)
	}
}

// freshRevision reads the revision while other goroutines write. A change that was acknowledged
// before a read began must be included.
func (e *env) freshRevision(r storage.Record) {
	e.Helper()
	const each = 100
	acknowledged := make(chan storage.Revision, each) // so that the writer never blocks
	e.together(2, func(i int) error {
		if i == 0 {
			defer close(acknowledged)
			for n := range each {
				c := storage.Change{Op: storage.Update, Key: r.Key, Value: fmt.Append(nil, n), Previous: r.Revision}
				var err error
				if r, err = e.store.Commit(e.ctx, c); err != nil {
					return err
				}
				acknowledged <- r.Revision
			}
			return nil
		}
		for wrote := range acknowledged {
			if now, err := storage.Now(e.ctx, e.store); err != nil || now < wrote {
				return fmt.Errorf("the revision is %d, error %v, after a write took %d", now, err, wrote)
			}
		}
		return nil
	})
}
