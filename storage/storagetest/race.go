package storagetest

import (
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strconv"
	"sync"

	"github.com/planekit/planekit/storage"
)

// together runs n goroutines and ends the check with their first error.
func (e *env) together(n int, run func(i int) error) {
	e.Helper()
	errs := make([]error, n)
	var group sync.WaitGroup
	for i := range n {
		group.Go(func() { errs[i] = run(i) })
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		e.Fatalf("%v", err)
	}
}

// checkCreateOnce has goroutines create the same key.
func checkCreateOnce(e *env) {
	const rounds, racers = 20, 8
	for round := range rounds {
		key := storage.Key(fmt.Sprintf("/%d", round))
		won := make([]storage.Record, racers)
		e.together(racers, func(i int) error {
			r, err := e.store.Commit(e.ctx, storage.Change{Key: key, Value: []byte(strconv.Itoa(i))})
			if err == nil {
				won[i] = r
			} else if !errors.Is(err, storage.ErrExists) {
				return err
			}
			return nil
		})
		won = slices.DeleteFunc(won, func(r storage.Record) bool { return r.Key == "" })
		if len(won) != 1 {
			e.Fatalf("%d of %d created %q", len(won), racers, key)
		}
		e.stands(won[0], 0)
	}
}

// checkCounter has goroutines increment one number, each time from the value that they have read or
// met. Every conflict is caused by an increment, so that their number is bounded.
func checkCounter(e *env) {
	const adders, each = 8, 50
	e.create("/n", "0")
	e.together(adders, func(int) error {
		r, err := e.store.Get(e.ctx, "/n", 0)
		for done, met := 0, 0; done < each; {
			if err != nil {
				return fmt.Errorf("counter: %w", err)
			}
			n, bad := strconv.Atoi(string(r.Value))
			if bad != nil {
				return fmt.Errorf("counter: %w", bad)
			}
			runtime.Gosched() // lets other goroutines run in between
			c := storage.Change{Op: storage.Update, Key: "/n", Value: []byte(strconv.Itoa(n + 1)), Previous: r.Revision}
			r, err = e.store.Commit(e.ctx, c)
			var conflict *storage.ConflictError
			if errors.As(err, &conflict) {
				r, err = conflict.Current, nil
				if met++; met > adders*each {
					return fmt.Errorf("counter: %d conflicts over %d increments", met, adders*each)
				}
			} else {
				done++
			}
		}
		return err
	})
	r, err := e.store.Get(e.ctx, "/n", 0)
	if err != nil || string(r.Value) != strconv.Itoa(adders*each) {
		e.Fatalf("after %d increments: %s, error %v", adders*each, show(r), err)
	}
}
