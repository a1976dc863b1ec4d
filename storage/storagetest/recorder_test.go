package storagetest

import (
	"testing"

	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/memstore"
)

// history makes calls, one after the other, through a recorder of s.
func history(t *testing.T, s storage.Store, made func(*Recorder)) error {
	t.Helper()
	r := Record(s)
	made(r)
	return r.explain()
}

// A change whose answer was lost may have been made and may not, and may be made
// later; but what others then see of it must fit.
func TestRecorderOfLostAnswers(t *testing.T) {
	lost := storage.Change{Key: "/a", Value: []byte("lost")}
	get := func(r *Recorder) { _, _ = r.Get(t.Context(), "/a", 0) }
	losing := func() storage.Store { return LoseReply(memstore.New(), nil) }
	refusing := func() storage.Store { return &faulty{store: memstore.New(), before: commitsFail()} }
	for name, test := range map[string]struct {
		store storage.Store
		made  func(*Recorder)
		sound bool
	}{
		"made":         {losing(), func(r *Recorder) { _, _ = r.Commit(t.Context(), lost); get(r) }, true},
		"made unseen":  {losing(), func(r *Recorder) { _, _ = r.Commit(t.Context(), lost) }, true},
		"not made":     {refusing(), func(r *Recorder) { _, _ = r.Commit(t.Context(), lost); get(r) }, true},
		"out of blue":  {losing(), func(r *Recorder) { _, _ = r.Store.Commit(t.Context(), lost); get(r) }, false},
		"undone again": {losing(), func(r *Recorder) { _, _ = r.Commit(t.Context(), lost); get(r); undo(r); get(r) }, false},
	} {
		if err := history(t, test.store, test.made); (err == nil) != test.sound {
			t.Errorf("%s: explain() = %v, want sound %t", name, err, test.sound)
		}
	}
}

// commitsFail refuses the first call.
func commitsFail() func() error {
	calls := 0
	return func() error {
		if calls++; calls == 1 {
			return ErrLost
		}
		return nil
	}
}

// undo deletes /a behind the recorder's back.
func undo(r *Recorder) {
	inner := r.Store.(*faulty).store.(*memstore.Store)
	b := &broken{Store: inner}
	b.drop("/a")
}
