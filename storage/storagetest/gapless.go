package storagetest

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"

	"github.com/planekit/planekit/storage"
)

// A follower lists a prefix and then watches it, while writers change it.
type follower struct {
	prefix storage.Key
	begin  chan struct{} // closed when it must begin
	began  chan struct{} // closed when it watches
	start  storage.Page
	feed   *feed
	seen   []storage.Event
}

// checkWatchGapless has writers change records that followers list and then watch. Each follower
// must see all changes in the order of their revisions.
func checkWatchGapless(e *env) {
	const writers, each, every = 4, 150, 80
	seed := rand.Uint64()
	e.Logf("seed %d", seed)
	var followers []*follower
	for _, prefix := range []storage.Key{"", "/w/", "/w/1/", "/w/", "/w/3/", "/w/2/4"} {
		followers = append(followers, &follower{
			prefix: prefix, begin: make(chan struct{}), began: make(chan struct{}),
		})
	}
	ctx, giveUp := context.WithCancel(e.ctx)
	defer giveUp()
	var history []storage.Event
	// turn guards history. It is a channel because the time of a synctest bubble advances while
	// goroutines wait for a channel, but not while they wait for a mutex.
	turn := make(chan struct{}, 1)
	write := func(i int) error {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		held := map[storage.Key]storage.Record{}
		for range each {
			key := storage.Key(fmt.Sprintf("/w/%d/%d", i, random.IntN(5)))
			event, err := e.toggle(held, key, random)
			if err != nil {
				return err
			}
			turn <- struct{}{}
			history = append(history, event)
			// Followers begin one after the other. While the odd ones begin, the writers pause
			// after the current change; otherwise a fast store would finish before.
			if n := len(history) - 1; n%every == 0 && n/every < len(followers) {
				f := followers[n/every]
				close(f.begin)
				if n/every%2 == 1 {
					f.wait(ctx)
				}
			}
			<-turn
		}
		return nil
	}
	e.together(writers+len(followers), func(i int) error {
		if i >= writers {
			return e.follow(ctx, followers[i-writers])
		}
		err := write(i)
		if err != nil {
			giveUp()
		}
		return err
	})
	end := e.create("/w/", "the end").Revision
	e.together(len(followers), func(i int) error { return e.catchUp(followers[i], end) })
	slices.SortFunc(history, func(a, b storage.Event) int { return cmp.Compare(a.Revision, b.Revision) })
	for _, f := range followers {
		e.agree(history, f)
	}
}

// toggle makes a valid change to key, and returns the event that it must cause.
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

// wait waits until f watches, or ctx is done.
func (f *follower) wait(ctx context.Context) {
	select {
	case <-f.began:
	case <-ctx.Done():
	}
}

// follow lists f's prefix and begins to watch it.
func (e *env) follow(ctx context.Context, f *follower) error {
	select {
	case <-f.begin:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer close(f.began)
	var err error
	if f.start, err = e.store.List(e.ctx, f.prefix, storage.ListOptions{}); err != nil {
		return err
	}
	w, err := e.store.Watch(e.ctx, f.prefix, f.start.Revision)
	f.feed = &feed{watcher: w, last: f.start.Revision}
	return err
}

// catchUp collects the events before end. A record that f itself writes marks the end.
func (e *env) catchUp(f *follower, end storage.Revision) error {
	defer f.feed.watcher.Close()
	mark := storage.Change{Key: f.prefix + storage.Key(fmt.Sprintf("/mark %p", f))}
	if _, err := e.store.Commit(e.ctx, mark); err != nil {
		return err
	}
	for {
		event, err := f.feed.next(e.ctx)
		if err != nil || event.Record.Key == mark.Key {
			return err
		}
		if event.Revision < end {
			f.seen = append(f.seen, event)
		}
	}
}

// agree compares the list and the events of f with history.
func (e *env) agree(history []storage.Event, f *follower) {
	e.Helper()
	prefix, start, seen := f.prefix, f.start, f.seen
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
