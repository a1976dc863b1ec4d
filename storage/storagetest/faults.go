package storagetest

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/planekit/planekit/storage"
)

// ErrLost is the error of a call whose answer was lost; see [LoseReply].
var ErrLost = errors.New("the answer was lost")

// Lag returns a store whose answers, including those of watches, are delayed by d. If the context
// ends meanwhile, the call returns its error although it was made.
func Lag(s storage.Store, d time.Duration) storage.Store {
	return &faulty{store: s, after: func(ctx context.Context, err error) error {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			return err
		case <-ctx.Done():
			return ctx.Err()
		}
	}}
}

// FailAfter returns a store that makes the first n calls and fails every later one with err without
// making it. Each Next of a watch is a call.
func FailAfter(s storage.Store, n int, err error) storage.Store {
	var calls atomic.Int64
	return &faulty{store: s, before: func() error {
		if calls.Add(1) > int64(n) {
			return err
		}
		return nil
	}}
}

// LoseReply returns a store that commits every change but returns [ErrLost] for those that lose
// selects, as if the connection broke: only a read shows that the change was made. A nil lose
// selects all changes. lose must be safe for concurrent use.
func LoseReply(s storage.Store, lose func(storage.Change) bool) storage.Store {
	return &faulty{store: s, lose: func(c storage.Change) bool { return lose == nil || lose(c) }}
}

// faulty is a store with faults around its calls. A nil fault does nothing.
type faulty struct {
	store storage.Store
	// before may fail a call. after gets the call's error and returns the final one.
	before func() error
	after  func(ctx context.Context, err error) error
	lose   func(storage.Change) bool
}

// around makes a call between the faults. If a fault adds an error, around returns the zero value.
func around[T any](ctx context.Context, f *faulty, call func() (T, error)) (T, error) {
	var zero T
	if f.before != nil {
		if err := f.before(); err != nil {
			return zero, err
		}
	}
	value, err := call()
	if f.after == nil {
		return value, err
	}
	late := f.after(ctx, err)
	if late != nil && err == nil {
		return zero, late
	}
	return value, late
}

func (f *faulty) Get(ctx context.Context, key storage.Key, at storage.Revision) (storage.Record, error) {
	return around(ctx, f, func() (storage.Record, error) { return f.store.Get(ctx, key, at) })
}

func (f *faulty) List(ctx context.Context, prefix storage.Key, o storage.ListOptions) (storage.Page, error) {
	return around(ctx, f, func() (storage.Page, error) { return f.store.List(ctx, prefix, o) })
}

func (f *faulty) Revision(ctx context.Context) (storage.Revision, error) {
	return around(ctx, f, func() (storage.Revision, error) { return storage.Now(ctx, f.store) })
}

func (f *faulty) Commit(ctx context.Context, c storage.Change) (storage.Record, error) {
	return around(ctx, f, func() (storage.Record, error) {
		r, err := f.store.Commit(ctx, c)
		if f.lose != nil && f.lose(c) {
			return storage.Record{}, ErrLost
		}
		return r, err
	})
}

func (f *faulty) Watch(ctx context.Context, prefix storage.Key, after storage.Revision) (storage.Watcher, error) {
	return around(ctx, f, func() (storage.Watcher, error) {
		w, err := f.store.Watch(ctx, prefix, after)
		if err != nil {
			return nil, err
		}
		return &faultyWatcher{faulty: f, watcher: w, outer: ctx}, nil
	})
}

// A faultyWatcher keeps events whose delivery a context interrupted, because the underlying watch
// does not deliver them again.
type faultyWatcher struct {
	faulty  *faulty
	watcher storage.Watcher
	outer   context.Context // of Watch
	kept    []storage.Event
	failed  error // final, because only an error of Next's context is not
}

func (w *faultyWatcher) Close() { w.watcher.Close() }

func (w *faultyWatcher) RequestProgress(ctx context.Context) error {
	_, err := around(ctx, w.faulty, func() (struct{}, error) {
		return struct{}{}, storage.RequestProgress(ctx, w.watcher)
	})
	return err
}

func (w *faultyWatcher) Next(ctx context.Context) ([]storage.Event, error) {
	if w.failed != nil {
		return nil, w.failed
	}
	events, err := around(ctx, w.faulty, func() ([]storage.Event, error) {
		if w.kept != nil {
			return w.kept, nil
		}
		events, err := w.watcher.Next(ctx)
		w.kept = events
		return events, err
	})
	if err == nil {
		w.kept = nil
	} else if ctx.Err() == nil {
		w.failed = err
	}
	return events, err
}
