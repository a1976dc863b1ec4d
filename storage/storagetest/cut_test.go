package storagetest

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/memstore"
)

// churn makes n changes to a few keys.
func churn(t *testing.T, s storage.Store, n int) {
	t.Helper()
	held := map[storage.Key]storage.Record{}
	for i := range n {
		c := storage.Change{Key: storage.Key(fmt.Sprintf("/k/%d", i%7)), Value: fmt.Append(nil, i)}
		if before, ok := held[c.Key]; ok {
			c.Op, c.Previous = storage.Update, before.Revision
			if i%3 == 0 {
				c.Op, c.Value = storage.Delete, nil
			}
		}
		r, err := s.Commit(t.Context(), c)
		if err != nil {
			t.Fatal(err)
		}
		held[c.Key] = r
		if c.Op == storage.Delete {
			delete(held, c.Key)
		}
	}
}

// A copyist keeps a copy of what is under /k/, as users of a Store must: it lists,
// watches, watches on where a watch breaks, and lists again where history is gone.
type copyist struct {
	copy          map[storage.Key]storage.Record
	at            storage.Revision
	watches, cuts int
	lists         int
}

// follow brings the copy to revision end.
func (c *copyist) follow(t *testing.T, s storage.Store, end storage.Revision) {
	t.Helper()
	for c.at < end {
		if c.at == 0 {
			page, err := s.List(t.Context(), "/k/", storage.ListOptions{})
			if err != nil {
				t.Fatal(err)
			}
			c.lists++
			c.copy, c.at = map[storage.Key]storage.Record{}, page.Revision
			for _, r := range page.Records {
				c.copy[r.Key] = r
			}
			continue
		}
		w, err := s.Watch(t.Context(), "/k/", c.at)
		if err != nil {
			t.Fatal(err)
		}
		c.watches++
		c.read(t, w, end)
		w.Close()
	}
}

// read applies events until end, or until the watch fails.
func (c *copyist) read(t *testing.T, w storage.Watcher, end storage.Revision) {
	t.Helper()
	for c.at < end {
		events, err := w.Next(t.Context())
		if err != nil {
			c.cuts++
			if errors.Is(err, storage.ErrCompacted) {
				c.at = 0
			}
			if _, again := w.Next(t.Context()); !errors.Is(again, err) {
				t.Errorf("the watch failed with %v, and then with %v", err, again)
			}
			return
		}
		for _, e := range events {
			if e.Revision <= c.at {
				t.Fatalf("%s after revision %d", showEvent(e), c.at)
			}
			c.at = e.Revision
			switch e.Type {
			case storage.Created, storage.Updated:
				c.copy[e.Record.Key] = e.Record
			case storage.Deleted:
				delete(c.copy, e.Record.Key)
			}
		}
	}
}

// agrees checks the copy against the store.
func (c *copyist) agrees(t *testing.T, s storage.Store) {
	t.Helper()
	page, err := s.List(t.Context(), "/k/", storage.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var copied []storage.Record
	for _, key := range slices.Sorted(maps.Keys(c.copy)) {
		copied = append(copied, c.copy[key])
	}
	if !slices.EqualFunc(copied, page.Records, same) {
		t.Errorf("copied %s, want %s", show(copied...), show(page.Records...))
	}
}

// A client that watches again from where a watch broke misses nothing.
func TestCutWatch(t *testing.T) {
	inner := memstore.New()
	broken := errors.New("connection reset by peer")
	s := CutWatch(inner, 1, broken)
	start, err := s.List(t.Context(), "/k/", storage.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c := &copyist{copy: map[storage.Key]storage.Record{}, at: start.Revision}
	for range 5 {
		churn(t, inner, 2500) // more than one delivery holds
		end, err := storage.Now(t.Context(), inner)
		if err != nil {
			t.Fatal(err)
		}
		c.follow(t, s, end)
		c.agrees(t, inner)
		clearAll(t, inner)
	}
	if c.cuts < 5 || c.lists > 0 {
		t.Errorf("%d watches, %d cut, %d lists", c.watches, c.cuts, c.lists)
	}
}

// A compaction under a watch has its user list again, and then nothing is
// missing.
func TestCompactUnderWatch(t *testing.T) {
	inner := memstore.New()
	s := CompactUnderWatch(inner, 1)
	c := &copyist{}
	for range 5 {
		churn(t, inner, 2500)
		end, err := storage.Now(t.Context(), inner)
		if err != nil {
			t.Fatal(err)
		}
		c.follow(t, s, end)
		c.agrees(t, inner)
		clearAll(t, inner)
	}
	if c.cuts < 4 || c.lists != c.cuts+1 {
		t.Errorf("%d watches, %d cut, %d lists", c.watches, c.cuts, c.lists)
	}
	// The history is also gone for new watches.
	//
	w, err := inner.Watch(t.Context(), "/k/", 1)
	if err != nil {
		t.Fatal(err)
	}
	if events, err := w.Next(t.Context()); !errors.Is(err, storage.ErrCompacted) {
		t.Errorf("%v, error %v", events, err)
	}
}

// clearAll deletes every record.
func clearAll(t *testing.T, s storage.Store) {
	t.Helper()
	page, err := s.List(t.Context(), "", storage.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range page.Records {
		if _, err := s.Commit(t.Context(), storage.Change{Op: storage.Delete, Key: r.Key, Previous: r.Revision}); err != nil {
			t.Fatal(err)
		}
	}
}
