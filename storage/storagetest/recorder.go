package storagetest

import (
	"context"
	"errors"
	"math"
	"sync"
	"sync/atomic"

	"github.com/anishathalye/porcupine"

	"github.com/planekit/planekit/storage"
)

// A Recorder is a store that records the calls to another store, so that [Recorder.Check] can
// decide whether they are linearizable. It is meant for some hundred calls by a handful of
// goroutines. Watches and reads at a revision are not recorded.
type Recorder struct {
	storage.Store
	clock atomic.Int64

	mu  sync.Mutex
	log []porcupine.Operation // under mu
}

// Record returns a recorder for s. While it is in use, s must be changed only through it. s must be
// empty where the calls touch it, and each value must be written once.
func Record(s storage.Store) *Recorder { return &Recorder{Store: s} }

// A call is the request of a caller: a change, or a read of one key or, without a key, of the
// prefix.
type call struct {
	change *storage.Change
	key    storage.Key
	prefix storage.Key
}

// An answer is the result of a call.
type answer struct {
	record  storage.Record
	page    storage.Page
	refusal error // nil, ErrExists, ErrNotFound or ErrConflict with the existing record
	// lost means that the change may or may not have been made.
	lost bool
}

// add records a call that began at began and has ended now.
func (r *Recorder) add(began int64, c call, a answer) {
	o := porcupine.Operation{Input: c, Call: began, Output: a, Return: r.clock.Add(1)}
	if a.lost {
		// It may take effect at any time from now on, or never.
		o.Return = math.MaxInt64
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.log = append(r.log, o)
}

// Get implements [storage.Store].
func (r *Recorder) Get(ctx context.Context, key storage.Key, at storage.Revision) (storage.Record, error) {
	if at != 0 {
		return r.Store.Get(ctx, key, at)
	}
	began := r.clock.Add(1)
	record, err := r.Store.Get(ctx, key, 0)
	switch {
	case err == nil:
		r.add(began, call{key: key}, answer{record: record})
	case errors.Is(err, storage.ErrNotFound):
		r.add(began, call{key: key}, answer{refusal: storage.ErrNotFound})
	}
	return record, err
}

// List implements [storage.Store].
func (r *Recorder) List(ctx context.Context, prefix storage.Key, o storage.ListOptions) (storage.Page, error) {
	if o != (storage.ListOptions{}) {
		return r.Store.List(ctx, prefix, o)
	}
	began := r.clock.Add(1)
	page, err := r.Store.List(ctx, prefix, o)
	if err == nil {
		r.add(began, call{prefix: prefix}, answer{page: page})
	}
	return page, err
}

// Commit implements [storage.Store].
func (r *Recorder) Commit(ctx context.Context, c storage.Change) (storage.Record, error) {
	began := r.clock.Add(1)
	record, err := r.Store.Commit(ctx, c)
	change := c
	change.Value = append([]byte(nil), c.Value...)
	a := answer{record: record}
	var conflict *storage.ConflictError
	switch {
	case err == nil:
	case errors.As(err, &conflict):
		a = answer{record: conflict.Current, refusal: storage.ErrConflict}
	case errors.Is(err, storage.ErrExists):
		a.refusal = storage.ErrExists
	case errors.Is(err, storage.ErrNotFound):
		a = answer{refusal: storage.ErrNotFound}
	case errors.Is(err, storage.ErrInvalid):
		return record, err // nothing was changed
	default:
		a = answer{lost: true}
	}
	r.add(began, call{change: &change, key: c.Key}, a)
	return record, err
}
