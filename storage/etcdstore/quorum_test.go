package etcdstore_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/storagetest"
)

const (
	// recovery is how long a cluster may take to acknowledge writes again, where it
	// takes no longer than election to choose a leader: etcd's own affair, and long
	// on a machine that has little time for it.
	recovery = 5 * time.Second
	election = 2 * time.Second
)

// A load records the answers that writers got while a cluster was in trouble.
type load struct {
	mu sync.Mutex
	// acknowledged holds the acknowledged records, last the time of the latest, and longest the
	// longest time without one. mu guards them.
	acknowledged map[storage.Key]storage.Record
	last         time.Time
	longest      time.Duration
}

// note is called with every record that is acknowledged.
func (l *load) note(r storage.Record) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	l.longest = max(l.longest, now.Sub(l.last))
	l.last = now
	l.acknowledged[r.Key] = r
}

func (l *load) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.acknowledged)
}

// insist creates key, again for as long as it is open whether that took place:
// then its own record is in its way.
func insist(ctx context.Context, s storage.Store, key storage.Key) (storage.Record, error) {
	for {
		try, cancel := context.WithTimeout(ctx, time.Second)
		r, err := s.Commit(try, storage.Change{Key: key, Value: []byte(key)})
		cancel()
		switch {
		case err == nil:
			return r, nil
		case errors.Is(err, storage.ErrExists):
			if string(r.Value) != string(key) {
				return r, fmt.Errorf("%s holds %q", key, r.Value)
			}
			return r, nil
		case ctx.Err() != nil:
			return r, err
		}
	}
}

// write has many write until stop is closed.
func (l *load) write(t *testing.T, s storage.Store, stop <-chan struct{}) (wait func()) {
	const writers = 8
	l.last = time.Now()
	var group sync.WaitGroup
	for w := range writers {
		group.Go(func() {
			for i := 0; ; i++ {
				select {
				case <-stop:
					return
				default:
				}
				r, err := insist(t.Context(), s, storage.Key(fmt.Sprintf("/load/%d/%d", w, i)))
				if err != nil {
					t.Errorf("writer %d: %v", w, err)
					return
				}
				l.note(r)
			}
		})
	}
	return group.Wait
}

// until waits for the load to have reached n.
func (l *load) until(t *testing.T, n int) {
	t.Helper()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for limit := time.Now().Add(patience); l.count() < n; <-ticker.C {
		if time.Now().After(limit) {
			t.Fatalf("%d writes were acknowledged, waiting for %d", l.count(), n)
		}
	}
}

// The leader is killed while many write: within 5 s they go on, no write that was
// acknowledged is lost, and a watch sees each of them once.
func TestLeaderIsKilled(t *testing.T) {
	q := newQuorate(t)
	store, client := q.store(t)
	members := q.leader(t, client)
	leader := members[0]
	survivor, _ := q.store(t, members[1])
	start, err := store.Revision(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	w, err := store.Watch(t.Context(), "/load/", start)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	l := &load{acknowledged: map[storage.Key]storage.Record{}}
	stop := make(chan struct{})
	wait := l.write(t, store, stop)
	l.until(t, 500)
	leader.kill()
	killed := time.Now()
	if _, err := insist(t.Context(), survivor, "/survivor"); err != nil {
		t.Fatal(err)
	}
	elected := time.Since(killed)
	l.until(t, l.count()+1000)
	leader.start(t)
	leader.ready(t)
	l.until(t, l.count()+500)
	close(stop)
	wait()
	t.Logf("%d writes, at most %v between two; a leader was there after %v", l.count(), l.longest, elected)
	if l.longest > recovery+max(0, elected-election) {
		t.Errorf("no write was acknowledged for %v; a leader was there after %v", l.longest, elected)
	}
	// Each member has them all, the one that was killed too.
	for _, m := range q.members {
		one, _ := q.store(t, m)
		page, err := one.List(t.Context(), "/load/", storage.ListOptions{})
		if err != nil {
			t.Fatal(err)
		}
		l.compare(t, m.config.Name, page.Records)
	}
	var seen []storage.Record
	for last := start; len(seen) < l.count(); {
		events, err := w.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if e.Type == storage.Progress {
				continue
			}
			if e.Type != storage.Created || e.Revision <= last {
				t.Fatalf("%v after revision %d", e, last)
			}
			last = e.Revision
			seen = append(seen, e.Record)
		}
	}
	l.compare(t, "the watch", seen)
}

// All answers that clients got while leaders changed, including refusals and timeouts, are
// linearizable.
func TestHistoryAcrossLeaders(t *testing.T) {
	t.Parallel()
	q := newQuorate(t)
	store, client := q.store(t)
	log := storagetest.Record(store)
	var group sync.WaitGroup
	stop := make(chan struct{})
	const clients = 4
	for i := range clients {
		group.Go(func() { wander(t, log, i, stop) })
	}
	for range 2 {
		leader := q.leader(t, client)[0]
		leader.kill()
		// Another leads when something is written again.
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		_, err := insist(ctx, store, storage.Key("/after/"+leader.config.Name))
		cancel()
		if err != nil {
			t.Fatal(err)
		}
		leader.start(t)
		leader.ready(t)
	}
	close(stop)
	group.Wait()
	log.Check(t)
}

// wander creates, updates, deletes and reads a few keys until stop is closed.
func wander(t *testing.T, s storage.Store, who int, stop <-chan struct{}) {
	pause := time.NewTicker(20 * time.Millisecond) // keeps the history short
	defer pause.Stop()
	held := map[storage.Key]storage.Record{}
	for n := 0; ; n++ {
		select {
		case <-stop:
			return
		case <-pause.C:
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		key := storage.Key(fmt.Sprintf("/wander/%d", (n+who)%2))
		c := storage.Change{Key: key, Value: fmt.Appendf(nil, "%d/%d", who, n)}
		r, known := held[key]
		switch {
		case n%4 == 3:
			_, _ = s.List(ctx, "/wander/", storage.ListOptions{})
		case !known && n%3 == 0:
			held[key], _ = s.Commit(ctx, c)
		case !known || r.Revision == 0:
			if got, err := s.Get(ctx, key, 0); err == nil {
				held[key] = got
			}
		default:
			delete(held, key)
			c.Op, c.Previous = storage.Update, r.Revision
			if n%7 == 0 {
				c.Op, c.Value = storage.Delete, nil
			}
			if got, err := s.Commit(ctx, c); err == nil && c.Op == storage.Update {
				held[key] = got
			}
		}
		cancel()
	}
}

// compare checks that records are those that were acknowledged.
func (l *load) compare(t *testing.T, who string, records []storage.Record) {
	t.Helper()
	if len(records) != len(l.acknowledged) {
		t.Errorf("%s has %d records, %d were acknowledged", who, len(records), len(l.acknowledged))
	}
	for _, r := range records {
		if want := l.acknowledged[r.Key]; r.Revision != want.Revision || string(r.Value) != string(want.Value) {
			t.Fatalf("%s has %v, acknowledged was %v", who, r, want)
		}
	}
}

// A member that was cut off, whether or not it was the leader, never answers a read with an old
// state: not while it is cut off, and not when it is back.
func TestPausedMemberServesNothingStale(t *testing.T) {
	t.Parallel()
	q := newQuorate(t)
	all, client := q.store(t)
	r, err := all.Commit(t.Context(), storage.Change{Key: "/a", Value: []byte("old")})
	if err != nil {
		t.Fatal(err)
	}
	for _, who := range []string{"leader", "follower"} {
		members := q.leader(t, client)
		paused, others := members[0], members[1:]
		if who == "follower" {
			paused, others = members[1], []*member{members[0], members[2]}
		}
		apart, _ := q.store(t, paused)
		rest, _ := q.store(t, others...)
		if _, err := apart.Get(t.Context(), "/a", 0); err != nil {
			t.Fatal(err)
		}
		paused.pause(t)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		for done := false; !done; {
			try, stop := context.WithTimeout(ctx, time.Second)
			next, err := rest.Commit(try, storage.Change{Op: storage.Update, Key: "/a", Value: []byte(who), Previous: r.Revision})
			stop()
			var conflict *storage.ConflictError
			switch {
			case err == nil:
				r, done = next, true
			case errors.As(err, &conflict):
				r, done = conflict.Current, string(conflict.Current.Value) == who
			case ctx.Err() != nil:
				t.Fatalf("without the %s: %v", who, err)
			}
		}
		cancel()
		// These reads are on their way when the member comes back.
		var group sync.WaitGroup
		for range 20 {
			group.Go(func() {
				ctx, cancel := context.WithTimeout(t.Context(), patience)
				defer cancel()
				got, err := apart.Get(ctx, "/a", 0)
				if err == nil && string(got.Value) != who {
					t.Errorf("the paused %s read %q, written was %q", who, got.Value, who)
				}
			})
		}
		brief, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
		if got, err := apart.Get(brief, "/a", 0); err == nil {
			t.Errorf("the paused %s answered: %v", who, got)
		}
		cancel()
		paused.resume(t)
		group.Wait()
		back, cancel := context.WithTimeout(t.Context(), patience)
		for {
			got, err := apart.Get(back, "/a", 0)
			if err == nil && string(got.Value) != who {
				t.Errorf("the %s that is back read %q", who, got.Value)
			}
			if err == nil {
				break
			}
			if back.Err() != nil {
				t.Fatalf("the %s that is back: %v", who, err)
			}
		}
		cancel()
	}
}

// Without a quorum nothing is written, and writes fail within a bounded time. With it, writes
// continue and nothing is lost.
func TestQuorumIsDown(t *testing.T) {
	t.Parallel()
	q := newQuorate(t)
	store, _ := q.store(t)
	if err := store.Healthy(t.Context()); err != nil {
		t.Errorf("health: %v", err)
	}
	if size, err := storage.Size(t.Context(), store); err != nil || size < 4096 {
		t.Errorf("Size() = %d, %v, want at least a page of 4096, nil", size, err)
	}
	r, err := store.Commit(t.Context(), storage.Change{Key: "/before", Value: []byte("/before")})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range q.members[1:] {
		m.kill()
	}
	// Both end before the quorum is back, which it is below.
	bounded, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	if _, err := store.Commit(bounded, storage.Change{Key: "/during", Value: []byte("/during")}); err == nil {
		t.Error("a write was acknowledged by one member of three")
	}
	began := time.Now()
	if _, err := store.Commit(t.Context(), storage.Change{Key: "/during2"}); err == nil {
		t.Error("a write was acknowledged by one member of three")
	} else {
		t.Logf("after %v: %v", time.Since(began), err)
	}
	bounded, cancel = context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := store.Healthy(bounded); err == nil {
		t.Error("one member of three is healthy")
	}
	if got, err := store.Get(bounded, "/before", 0); err == nil {
		t.Errorf("one member of three answered a linearizable read: %v", got)
	}
	for _, m := range q.members[1:] {
		m.start(t)
	}
	began = time.Now()
	long, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if _, err := insist(long, store, "/during"); err != nil {
		t.Fatal(err)
	}
	t.Logf("written %v after the others were started", time.Since(began))
	if got, err := store.Get(long, "/before", 0); err != nil || got.Revision != r.Revision {
		t.Errorf("what was written before: %v, error %v", got, err)
	}
	if err := store.Healthy(long); err != nil {
		t.Errorf("health: %v", err)
	}
}
