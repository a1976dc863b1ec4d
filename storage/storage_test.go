package storage_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/memstore"
)

// List what there is, then follow what happens to it: nothing is missed in
// between.
func Example() {
	ctx := context.Background()
	var store storage.Store = memstore.New()
	web, err := store.Commit(ctx, storage.Change{Key: "/pods/default/web", Value: []byte("new")})
	if err != nil {
		fmt.Println(err)
		return
	}
	page, err := store.List(ctx, "/pods/", storage.ListOptions{})
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, r := range page.Records {
		fmt.Printf("listed %s: %s\n", r.Key, r.Value)
	}
	watcher, err := store.Watch(ctx, "/pods/", page.Revision)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer watcher.Close()
	update := storage.Change{Op: storage.Update, Key: web.Key, Value: []byte("running"), Previous: web.Revision}
	for range 2 {
		// The second time the guard no longer holds.
		if _, err := store.Commit(ctx, update); err != nil {
			fmt.Println(err)
		}
	}
	events, err := watcher.Next(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	for _, e := range events {
		fmt.Printf("%s %s: %s, was %s\n", e.Type, e.Record.Key, e.Record.Value, e.Previous.Value)
	}
	// Output:
	// listed /pods/default/web: new
	// /pods/default/web: conflict: at revision 3, not 2
	// updated /pods/default/web: running, was new
}

func TestCheck(t *testing.T) {
	for _, c := range []storage.Change{
		{Key: "/a"},
		{Op: storage.Update, Key: "/a", Previous: 1},
		{Op: storage.Delete, Key: "/a", Previous: 1},
		{Key: "/a", TTL: time.Hour},
		{Op: storage.Update, Key: "/a", Previous: 1, TTL: time.Second},
	} {
		if err := c.Check(); err != nil {
			t.Errorf("Check() of %+v: %v, want no error", c, err)
		}
	}
	for _, c := range []storage.Change{
		{},
		{Op: storage.Update, Previous: 1},
		{Op: storage.Update, Key: "/a"},
		{Op: storage.Delete, Key: "/a", Previous: -1},
		{Op: storage.Create, Key: "/a", Previous: 1},
		{Op: 3, Key: "/a", Previous: 1},
		{Op: -1, Key: "/a", Previous: 1},
		{Key: "/a", TTL: -time.Second},
		{Key: "/a", TTL: 1500 * time.Millisecond},
		{Op: storage.Delete, Key: "/a", Previous: 1, TTL: time.Second},
	} {
		if err := c.Check(); !errors.Is(err, storage.ErrInvalid) {
			t.Errorf("%+v: error %v, want %v", c, err, storage.ErrInvalid)
		}
	}
}

func TestNames(t *testing.T) {
	for value, want := range map[fmt.Stringer]string{
		storage.Create: "create", storage.Update: "update", storage.Delete: "delete", storage.Op(7): "operation 7",
		storage.Created: "created", storage.Updated: "updated", storage.Deleted: "deleted",
		storage.Progress: "progress", storage.EventType(0): "event type 0",
	} {
		if value.String() != want {
			t.Errorf("%q, want %q", value, want)
		}
	}
}

func TestConflictError(t *testing.T) {
	err := fmt.Errorf("update: %w", &storage.ConflictError{Key: "/a", Current: storage.Record{Revision: 7}, Want: 5})
	if !errors.Is(err, storage.ErrConflict) || errors.Is(err, storage.ErrExists) {
		t.Errorf("%v is not what it should be", err)
	}
	if want := "update: /a: conflict: at revision 7, not 5"; err.Error() != want {
		t.Errorf("%q, want %q", err, want)
	}
}
