package storagetest

import (
	"context"
	"time"

	"github.com/planekit/planekit/storage"
)

const (
	// brief is the shortest TTL. latest is how long after it a record may still exist.
	brief  = time.Second
	latest = 10 * time.Second
)

// checkTTL checks that records expire, that watches see it, and that the last change determines the
// TTL.
func checkTTL(e *env) {
	f := e.watch("/t/", 0)
	commit := func(c storage.Change) storage.Record {
		e.Helper()
		r, err := e.store.Commit(e.ctx, c)
		if err != nil {
			e.Fatalf("%s %q with a TTL of %v: %v", c.Op, c.Key, c.TTL, err)
		}
		return r
	}
	create := func(key storage.Key, ttl time.Duration) storage.Record {
		e.Helper()
		return commit(storage.Change{Key: key, Value: []byte(key), TTL: ttl})
	}
	update := func(r storage.Record, ttl time.Duration) storage.Record {
		e.Helper()
		return commit(storage.Change{Op: storage.Update, Key: r.Key, Value: r.Value, Previous: r.Revision, TTL: ttl})
	}
	began := time.Now()
	// These expire ...
	mortal := []storage.Record{create("/t/created", brief), create("/t/updated", 0), create("/t/shortened", time.Hour)}
	mortal[1], mortal[2] = update(mortal[1], brief), update(mortal[2], brief)
	// ... and these stay, or are deleted otherwise.
	stays := []storage.Record{create("/t/kept", brief), create("/t/prolonged", brief), create("/t/lasting", time.Hour)}
	stays[0], stays[1] = update(stays[0], 0), update(stays[1], time.Hour)
	removed := create("/t/removed", brief)
	e.remove(removed)
	again := create("/t/removed", 0)

	before := map[storage.Key]storage.Record{}
	for _, r := range mortal {
		before[r.Key] = r
	}
	ctx, cancel := context.WithTimeout(e.ctx, brief+latest)
	defer cancel()
	for len(before) > 0 {
		event, err := f.next(ctx)
		if err != nil {
			e.Fatalf("watch of records with a TTL of %v, %d of which should have gone by %v after it: %v", brief, len(before), latest, err)
		}
		r, expected := before[event.Record.Key]
		if event.Type != storage.Deleted || event.Record.Key == removed.Key {
			continue
		}
		if took := time.Since(began); !expected || took < brief || took > brief+latest {
			e.Fatalf("%s after %v; TTL of %v expected: %v", showEvent(event), took, brief, expected)
		}
		if !sameEvent(event, deleted(r, event.Revision)) {
			e.Fatalf("%s, want the deletion of %s", showEvent(event), show(r))
		}
		delete(before, r.Key)
		e.absent(r.Key, 0)
		e.stands(r, event.Revision-1)
		create(r.Key, 0)
	}
	for _, r := range append(stays, again) {
		e.stands(r, 0)
	}
}
