package storagetest

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
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

// checkCreateOnce has many create the same key.
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

// checkCounter has many increment one number, each time from what they read or met.
func checkCounter(e *env) {
	const adders, each = 8, 50
	e.create("/n", "0")
	e.together(adders, func(int) error {
		r, err := e.store.Get(e.ctx, "/n", 0)
		for done := 0; done < each; {
			if err != nil {
				return fmt.Errorf("counter: %w", err)
			}
			n, bad := strconv.Atoi(string(r.Value))
			if bad != nil {
				return fmt.Errorf("counter: %w", bad)
			}
			c := storage.Change{Op: storage.Update, Key: "/n", Value: []byte(strconv.Itoa(n + 1)), Previous: r.Revision}
			r, err = e.store.Commit(e.ctx, c)
			var conflict *storage.ConflictError
			if errors.As(err, &conflict) {
				r, err = conflict.Current, nil
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

// checkWatchGapless has writers change what watchers list and then follow. All
// must have seen what the writers did, in the order of its revisions.
func checkWatchGapless(e *env) {
	const writers, each = 4, 150
	seed := rand.Uint64()
	e.Logf("seed %d", seed)
	var (
		mu      sync.Mutex
		history []storage.Event
	)
	write := func(i int) error {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		held := map[storage.Key]storage.Record{}
		for range each {
			key := storage.Key(fmt.Sprintf("/w/%d/%d", i, random.IntN(5)))
			event, err := e.toggle(held, key, random)
			if err != nil {
				return err
			}
			mu.Lock()
			history = append(history, event)
			mu.Unlock()
		}
		return nil
	}
	prefixes := []storage.Key{"", "/w/", "/w/1/", "/w/", "/w/3/", "/w/2/4"}
	done := make(chan storage.Revision)
	seen := make([][]storage.Event, len(prefixes))
	starts := make([]storage.Page, len(prefixes))
	var followers sync.WaitGroup
	errs := make([]error, len(prefixes))
	for i, prefix := range prefixes {
		followers.Go(func() { starts[i], seen[i], errs[i] = e.follow(prefix, done) })
	}
	e.together(writers, write)
	last := e.create("/w/", "the end of one").Revision
	for range prefixes {
		done <- last
	}
	followers.Wait()
	if err := errors.Join(errs...); err != nil {
		e.Fatalf("%v", err)
	}
	slices.SortFunc(history, func(a, b storage.Event) int { return cmp.Compare(a.Revision, b.Revision) })
	for i, prefix := range prefixes {
		e.agree(history, prefix, starts[i], seen[i])
	}
}

// toggle makes a change to key that held allows for, and returns the event it
// must cause.
func (e *env) toggle(held map[storage.Key]storage.Record, key storage.Key, random *rand.Rand) (storage.Event, error) {
	before, exists := held[key]
	value := []byte(strconv.FormatUint(random.Uint64(), 36))
	c := storage.Change{Op: storage.Create, Key: key, Value: value}
	if exists {
		c.Op, c.Previous = storage.Update, before.Revision
		if random.IntN(3) == 0 {
			c.Op, c.Value = storage.Delete, nil
		}
	}
	r, err := e.store.Commit(e.ctx, c)
	if err != nil {
		return storage.Event{}, fmt.Errorf("the only writer of %q: %s: %w", key, c.Op, err)
	}
	switch c.Op {
	case storage.Create:
		held[key] = r
		return created(r), nil
	case storage.Update:
		held[key] = r
		return updated(before, r), nil
	}
	delete(held, key)
	return deleted(before, r.Revision), nil
}

// follow lists prefix, and watches it from there until a mark that it sets
// itself when it is told the revision of the last change.
func (e *env) follow(prefix storage.Key, done <-chan storage.Revision) (storage.Page, []storage.Event, error) {
	page, listed := e.store.List(e.ctx, prefix, storage.ListOptions{})
	var f *feed
	if listed == nil {
		w, err := e.store.Watch(e.ctx, prefix, page.Revision)
		if err != nil {
			listed = err
		} else {
			defer w.Close()
			f = &feed{watcher: w, last: page.Revision}
		}
	}
	var end storage.Revision
	select {
	case end = <-done:
	case <-e.ctx.Done():
	}
	if listed != nil {
		return page, nil, listed
	}
	mark := storage.Change{Key: prefix + storage.Key(fmt.Sprintf("/mark %p", f))}
	if _, err := e.store.Commit(e.ctx, mark); err != nil {
		return page, nil, err
	}
	var events []storage.Event
	for {
		event, err := f.next(e.ctx)
		if err != nil || event.Record.Key == mark.Key {
			return page, events, err
		}
		if event.Revision < end {
			events = append(events, event)
		}
	}
}

// agree checks a listing and the events after it against history.
func (e *env) agree(history []storage.Event, prefix storage.Key, start storage.Page, seen []storage.Event) {
	e.Helper()
	before, after := split(history, prefix, start.Revision)
	if want := stateAfter(before); !slices.EqualFunc(start.Records, want, same) {
		e.Errorf("list %q as of %d: %s, want %s", prefix, start.Revision, show(start.Records...), show(want...))
	}
	for i, want := range after {
		if i == len(seen) {
			e.Fatalf("watch %q after %d: ends before %s", prefix, start.Revision, showEvent(want))
		}
		if !sameEvent(seen[i], want) {
			e.Fatalf("watch %q after %d: %s, want %s", prefix, start.Revision, showEvent(seen[i]), showEvent(want))
		}
	}
	if len(seen) > len(after) {
		e.Fatalf("watch %q after %d: %s, which nobody did", prefix, start.Revision, showEvent(seen[len(after)]))
	}
}
