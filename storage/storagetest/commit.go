package storagetest

import (
	"context"
	"errors"
	"time"

	"github.com/planekit/planekit/storage"
)

func checkCreate(e *env) {
	e.absent("/a", 0)
	a := e.create("/a", "one")
	e.stands(a, 0)
	before := e.list("", storage.ListOptions{}).Revision
	current, _ := e.refused(storage.Change{Op: storage.Create, Key: "/a", Value: []byte("two")}, storage.ErrExists)
	if !same(current, a) {
		e.Errorf("create over %s: returned %s with the error", show(a), show(current))
	}
	e.stands(a, 0)
	if after := e.list("", storage.ListOptions{}).Revision; after < before {
		e.Errorf("the revision went from %d to %d", before, after)
	}
	b := e.create("/b", "")
	if b.Revision <= a.Revision {
		e.Errorf("a second create took revision %d after %d", b.Revision, a.Revision)
	}
	e.stands(b, 0)
}

func checkUpdate(e *env) {
	e.refused(storage.Change{Op: storage.Update, Key: "/a", Previous: 1}, storage.ErrNotFound)
	a := e.create("/a", "one")
	b := e.create("/b", "other")
	c := e.update(a, "two")
	e.stands(c, 0)
	e.stands(b, 0)
	for _, stale := range []storage.Revision{a.Revision, b.Revision, c.Revision + 1000} {
		e.conflicts(storage.Change{Op: storage.Update, Key: "/a", Value: []byte("lost"), Previous: stale}, c)
	}
	e.stands(c, 0)
	e.stands(e.update(c, "two"), 0) // the same value is a change like any other
}

func checkDelete(e *env) {
	e.refused(storage.Change{Op: storage.Delete, Key: "/a", Previous: 1}, storage.ErrNotFound)
	a := e.create("/a", "one")
	b := e.update(a, "two")
	e.conflicts(storage.Change{Op: storage.Delete, Key: "/a", Previous: a.Revision}, b)
	e.stands(b, 0)
	gone := e.remove(b)
	e.absent("/a", 0)
	e.refused(storage.Change{Op: storage.Delete, Key: "/a", Previous: gone.Revision}, storage.ErrNotFound)
	e.refused(storage.Change{Op: storage.Update, Key: "/a", Previous: b.Revision}, storage.ErrNotFound)
	again := e.create("/a", "three")
	if again.Revision <= gone.Revision {
		e.Errorf("created again at %d, after the deletion at %d", again.Revision, gone.Revision)
	}
	e.stands(again, 0)
}

// conflicts makes a change that must fail with a conflict with current.
func (e *env) conflicts(c storage.Change, current storage.Record) {
	e.Helper()
	_, err := e.refused(c, storage.ErrConflict)
	var conflict *storage.ConflictError
	if !errors.As(err, &conflict) {
		e.Fatalf("%s %q: %T is not a *storage.ConflictError", c.Op, c.Key, err)
	}
	if conflict.Key != c.Key || conflict.Want != c.Previous || !same(conflict.Current, current) {
		e.Errorf("%s %q guarded by %d: conflict over %q with %s, wanting %d; %s stands in the way",
			c.Op, c.Key, c.Previous, conflict.Key, show(conflict.Current), conflict.Want, show(current))
	}
}

func checkInvalid(e *env) {
	a := e.create("/a", "one")
	for _, c := range []storage.Change{
		{Op: storage.Create},
		{Op: storage.Update, Previous: a.Revision},
		{Op: storage.Delete, Previous: a.Revision},
		{Op: storage.Update, Key: "/a"},
		{Op: storage.Delete, Key: "/a"},
		{Op: storage.Update, Key: "/a", Previous: -1},
		{Op: storage.Create, Key: "/b", Previous: a.Revision},
		{Op: storage.Delete + 1, Key: "/a", Previous: a.Revision},
		{Op: -1, Key: "/a"},
		{Op: storage.Create, Key: "/b", TTL: time.Second / 2},
		{Op: storage.Update, Key: "/a", Previous: a.Revision, TTL: -time.Second},
		{Op: storage.Delete, Key: "/a", Previous: a.Revision, TTL: time.Second},
	} {
		e.refused(c, storage.ErrInvalid)
	}
	invalid := func(what string, err error) {
		e.Helper()
		if !errors.Is(err, storage.ErrInvalid) {
			e.Errorf("%s: error %v, want %v", what, err, storage.ErrInvalid)
		}
	}
	_, err := e.store.Get(e.ctx, "", 0)
	invalid("get of the empty key", err)
	_, err = e.store.Get(e.ctx, "/a", -1)
	invalid("get at -1", err)
	_, err = e.store.List(e.ctx, "", storage.ListOptions{At: -1})
	invalid("list at -1", err)
	_, err = e.store.List(e.ctx, "", storage.ListOptions{Limit: -1})
	invalid("list with limit -1", err)
	if w, err := e.store.Watch(e.ctx, "", -1); err == nil {
		w.Close()
		e.Errorf("watch after -1 was accepted")
	} else {
		invalid("watch after -1", err)
	}
	e.lists("", storage.ListOptions{}, []storage.Record{a}, 0)
}

// checkOwnership overwrites the values that it has passed to the store.
func checkOwnership(e *env) {
	f := e.watch("", 0)
	value := []byte("one")
	overwrite := func() { copy(value, "new") }
	a, err := e.store.Commit(e.ctx, storage.Change{Op: storage.Create, Key: "/a", Value: value})
	if err != nil {
		e.Fatalf("create: %v", err)
	}
	overwrite()
	one := storage.Record{Key: "/a", Value: []byte("one"), Revision: a.Revision, Created: a.Revision}
	if !same(a, one) {
		e.Errorf("the record that create returned became %s", show(a))
	}
	e.stands(one, 0)
	copy(value, "two")
	b, err := e.store.Commit(e.ctx, storage.Change{Op: storage.Update, Key: "/a", Value: value, Previous: a.Revision})
	if err != nil {
		e.Fatalf("update: %v", err)
	}
	overwrite()
	two := storage.Record{Key: "/a", Value: []byte("two"), Revision: b.Revision, Created: a.Revision}
	if !same(b, two) {
		e.Errorf("the record that update returned became %s", show(b))
	}
	e.stands(two, 0)
	e.stands(one, one.Revision)
	e.lists("", storage.ListOptions{}, []storage.Record{two}, 0)
	e.delivers(f, created(one), updated(one, two))
}

// checkCancelled makes calls with a cancelled context. A change that fails with its error may have
// been committed, but only as a whole.
func checkCancelled(e *env) {
	done, cancel := context.WithCancel(e.ctx)
	cancel()
	a := e.create("/a", "one")
	wants := func(what string, err error) {
		e.Helper()
		if !errors.Is(err, context.Canceled) {
			e.Errorf("%s with a cancelled context: error %v", what, err)
		}
	}
	_, err := e.store.Get(done, "/a", 0)
	wants("get", err)
	_, err = e.store.List(done, "", storage.ListOptions{})
	wants("list", err)
	_, err = e.store.Watch(done, "", a.Revision)
	wants("watch", err)
	_, err = e.store.Commit(done, storage.Change{Op: storage.Create, Key: "/b", Value: []byte("two")})
	wants("create", err)
	if b, err := e.store.Get(e.ctx, "/b", 0); err == nil && string(b.Value) != "two" {
		e.Errorf("create with a cancelled context left %s", show(b))
	}
}
