package storagetest

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/planekit/planekit/storage"
)

// An env provides the operations of a check. Its methods end the check when the store does not
// behave as their names say.
type env struct {
	reporter
	store storage.Store
	ctx   context.Context
	lacks []Feature
}

func (e *env) create(key storage.Key, value string) storage.Record {
	e.Helper()
	r, err := e.store.Commit(e.ctx, storage.Change{Op: storage.Create, Key: key, Value: []byte(value)})
	if err != nil {
		e.Fatalf("create %q: %v", key, err)
	}
	want := storage.Record{Key: key, Value: []byte(value), Revision: r.Revision, Created: r.Revision}
	if r.Revision <= 0 || !same(r, want) {
		e.Fatalf("create %q returned %s, want %s and a revision", key, show(r), show(want))
	}
	return r
}

func (e *env) update(previous storage.Record, value string) storage.Record {
	e.Helper()
	r, err := e.store.Commit(e.ctx, storage.Change{
		Op: storage.Update, Key: previous.Key, Value: []byte(value), Previous: previous.Revision,
	})
	if err != nil {
		e.Fatalf("update %q at %d: %v", previous.Key, previous.Revision, err)
	}
	want := storage.Record{Key: previous.Key, Value: []byte(value), Revision: r.Revision, Created: previous.Created}
	if r.Revision <= previous.Revision || !same(r, want) {
		e.Fatalf("update %q returned %s, want %s and a later revision than %d",
			previous.Key, show(r), show(want), previous.Revision)
	}
	return r
}

func (e *env) remove(previous storage.Record) storage.Record {
	e.Helper()
	r, err := e.store.Commit(e.ctx, storage.Change{
		Op: storage.Delete, Key: previous.Key, Previous: previous.Revision,
	})
	if err != nil {
		e.Fatalf("delete %q at %d: %v", previous.Key, previous.Revision, err)
	}
	want := previous
	want.Revision = r.Revision
	if r.Revision <= previous.Revision || !same(r, want) {
		e.Fatalf("delete %q returned %s, want %s and a later revision than %d",
			previous.Key, show(r), show(want), previous.Revision)
	}
	return r
}

// refused makes a change that must fail with want.
func (e *env) refused(c storage.Change, want error) (storage.Record, error) {
	e.Helper()
	r, err := e.store.Commit(e.ctx, c)
	if !errors.Is(err, want) {
		e.Fatalf("%s %q guarded by %d: error %v, want %v", c.Op, c.Key, c.Previous, err, want)
	}
	return r, err
}

// stands checks that the record of key is want at revision at.
func (e *env) stands(want storage.Record, at storage.Revision) {
	e.Helper()
	r, err := e.store.Get(e.ctx, want.Key, at)
	if e.past(at, err) {
		return
	}
	if err != nil || !same(r, want) {
		e.Fatalf("get %q at %d: %s, error %v, want %s", want.Key, at, show(r), err, show(want))
	}
}

// absent checks that key does not exist at revision at.
func (e *env) absent(key storage.Key, at storage.Revision) {
	e.Helper()
	r, err := e.store.Get(e.ctx, key, at)
	if e.past(at, err) {
		return
	}
	if !errors.Is(err, storage.ErrNotFound) {
		e.Fatalf("get %q at %d: %s, error %v, want %v", key, at, show(r), err, storage.ErrNotFound)
	}
}

func (e *env) list(prefix storage.Key, o storage.ListOptions) storage.Page {
	e.Helper()
	page, err := e.store.List(e.ctx, prefix, o)
	if err != nil {
		e.Fatalf("list %q %+v: %v", prefix, o, err)
	}
	if page.Revision <= 0 {
		e.Fatalf("list %q %+v: revision %d, want one above zero", prefix, o, page.Revision)
	}
	return page
}

// lists checks that a listing contains want, and that remaining records follow.
func (e *env) lists(prefix storage.Key, o storage.ListOptions, want []storage.Record, remaining int) storage.Page {
	e.Helper()
	page := e.list(prefix, o)
	if !slices.EqualFunc(page.Records, want, same) {
		e.Fatalf("list %q %+v: %s, want %s", prefix, o, show(page.Records...), show(want...))
	}
	if page.Remaining != int64(remaining) {
		e.Fatalf("list %q %+v: %d remaining, want %d", prefix, o, page.Remaining, remaining)
	}
	if o.At != 0 && page.Revision != o.At {
		e.Fatalf("list %q %+v: as of revision %d", prefix, o, page.Revision)
	}
	return page
}

// same compares records; a nil value equals an empty one.
func same(a, b storage.Record) bool {
	return a.Key == b.Key && a.Revision == b.Revision && a.Created == b.Created && bytes.Equal(a.Value, b.Value) &&
		a.Damage == nil && b.Damage == nil && a.Stale == b.Stale
}
