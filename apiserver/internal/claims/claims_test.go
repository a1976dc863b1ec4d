package claims

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/memstore"
	"k8s.io/apimachinery/pkg/types"
)

// stored is an object as the tests store it.
type stored struct {
	UID   types.UID
	Names []string
}

func newTable(store storage.Store) *Table {
	return New(Config{Store: store, Held: "/held/", Objects: "/objects/", Names: func(record storage.Record) (types.UID, []string, error) {
		var o stored
		err := json.Unmarshal(record.Value, &o)
		return o.UID, o.Names, err
	}})
}

func put(t *testing.T, store storage.Store, key storage.Key, o stored) storage.Record {
	t.Helper()
	value, err := json.Marshal(o)
	if err != nil {
		t.Fatal(err)
	}
	record, err := store.Commit(t.Context(), storage.Change{Op: storage.Create, Key: key, Value: value})
	if err != nil {
		t.Fatal(err)
	}
	return record
}

func begin(t *testing.T, table *Table, uid types.UID) *Attempt {
	t.Helper()
	a, err := table.Begin(t.Context(), "/objects/"+storage.Key(uid), uid, false)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func take(t *testing.T, a *Attempt, name string, want bool) {
	t.Helper()
	for _, look := range []bool{true, false} {
		if free, err := a.Take(t.Context(), name, look); err != nil || free != want {
			t.Fatalf("%s takes %s: %v, %v", a.claim.UID, name, free, err)
		}
	}
}

// TestOneHasTheName: a name is that of one object, of two servers, until it is given back or a minute
// has passed without the object.
func TestOneHasTheName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		one, two := newTable(store), newTable(store)
		a, b := begin(t, one, "a"), begin(t, two, "b")
		take(t, a, "x", true)
		take(t, b, "x", false)
		take(t, b, "y", true)
		a.GiveUp(t.Context())
		take(t, b, "x", true)
		take(t, b, "x", true)                                              // its own already
		written := put(t, store, "/objects/b", stored{"b", []string{"x"}}) // and not y
		if b.Late() {
			t.Error("late at once")
		}
		time.Sleep(claimTime/2 + time.Second)
		if !b.Late() {
			t.Error("not late after more than half of the time")
		}
		c := begin(t, one, "c")
		take(t, c, "y", false)
		time.Sleep(claimTime)
		take(t, c, "y", true)
		take(t, c, "x", false)
		two.Release(t.Context(), "/objects/b", "b", []string{"x"}, 1) // by a change before the claim
		take(t, c, "x", false)
		two.Release(t.Context(), "/objects/c", "c", []string{"x"}, written.Revision) // of another object
		take(t, c, "x", false)
		two.Release(t.Context(), "/objects/b", "b", []string{"x"}, written.Revision)
		take(t, c, "x", true)
	})
}

// TestClocksDiffer: a claim by the clock of a server that is an hour behind is not taken over before its object
// can have been stored.
func TestClocksDiffer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := memstore.New()
		behind, ahead := newTable(store), newTable(store)
		a := begin(t, behind, "a")
		a.claim.Time = time.Now().Add(-time.Hour)
		take(t, a, "x", true)
		b := begin(t, ahead, "b")
		take(t, b, "x", false)
		time.Sleep(claimTime - time.Second)
		take(t, b, "x", false)
		put(t, store, "/objects/a", stored{"a", []string{"x"}})
		time.Sleep(claimTime)
		take(t, b, "x", false)
	})
}

// TestAdoption: objects that another program has stored have their names, except those that cannot be
// decoded. An adoption that fails is tried again.
func TestAdoption(t *testing.T) {
	store := memstore.New()
	old := put(t, store, "/objects/old", stored{"old", []string{"x", "y"}})
	if _, err := store.Commit(t.Context(), storage.Change{Op: storage.Create, Key: "/objects/broken", Value: []byte("{")}); err != nil {
		t.Fatal(err)
	}
	table := newTable(store)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := table.Begin(ended, "/objects/new", "new", false); !errors.Is(err, context.Canceled) {
		t.Fatalf("with an ended context: %v", err)
	}
	a := begin(t, table, "new")
	take(t, a, "x", false)
	take(t, a, "z", true)
	if _, err := store.Commit(t.Context(), storage.Change{Op: storage.Delete, Key: old.Key, Previous: old.Revision}); err != nil {
		t.Fatal(err)
	}
	take(t, a, "x", true)
	if _, err := store.Commit(t.Context(), storage.Change{Op: storage.Create, Key: "/held/w", Value: []byte("{")}); err != nil {
		t.Fatal(err)
	}
	if free, err := a.Take(t.Context(), "w", false); err == nil || free {
		t.Errorf("a claim that cannot be decoded: %v, %v", free, err)
	}
}

// TestRace: of many attempts at once, from several servers, one gets the name.
func TestRace(t *testing.T) {
	store := memstore.New()
	tables := []*Table{newTable(store), newTable(store), newTable(store)}
	var all sync.WaitGroup
	got := make(chan types.UID, 60)
	for n := range 60 {
		all.Go(func() {
			uid := types.UID(rune('A' + n))
			a, err := tables[n%len(tables)].Begin(t.Context(), "/objects/"+storage.Key(uid), uid, false)
			if err != nil {
				t.Error(err)
				return
			}
			free, err := a.Take(t.Context(), "x", false)
			if err != nil {
				t.Error(err)
			}
			if free {
				got <- uid
			}
		})
	}
	all.Wait()
	if len(got) != 1 {
		t.Errorf("%d have the name", len(got))
	}
}
