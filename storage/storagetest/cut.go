package storagetest

import (
	"context"
	"errors"

	"github.com/planekit/planekit/storage"
)

// CutWatch returns a store whose watches fail with err instead of delivery n+1, as if the
// connection broke. The watch loses all later changes.
func CutWatch(s storage.Store, n int, err error) storage.Store {
	return &cutting{Store: s, deliveries: n, cut: func(context.Context) error { return err }}
}

// A Compacter is a store that can discard history.
type Compacter interface {
	storage.Store
	// Compact discards the history before a revision.
	Compact(ctx context.Context, at storage.Revision) error
}

// CompactUnderWatch returns a store that compacts after n deliveries of a watch. All history is
// discarded, and every watch that has not delivered the latest change fails with
// [storage.ErrCompacted].
func CompactUnderWatch(s Compacter, n int) storage.Store {
	return &cutting{Store: s, deliveries: n, cut: func(ctx context.Context) error {
		now, err := storage.Now(ctx, s)
		if err == nil {
			err = s.Compact(ctx, now)
		}
		if err != nil && !errors.Is(err, storage.ErrCompacted) {
			return err
		}
		return storage.ErrCompacted
	}}
}

// cutting is a store that ends its watches.
type cutting struct {
	storage.Store
	deliveries int
	cut        func(context.Context) error
}

func (c *cutting) Revision(ctx context.Context) (storage.Revision, error) {
	return storage.Now(ctx, c.Store)
}

func (c *cutting) Watch(ctx context.Context, prefix storage.Key, after storage.Revision) (storage.Watcher, error) {
	w, err := c.Store.Watch(ctx, prefix, after)
	if err != nil {
		return nil, err
	}
	return &cutWatcher{Watcher: w, store: c, left: c.deliveries}, nil
}

// A cutWatcher is a watch that ends after a number of deliveries.
type cutWatcher struct {
	storage.Watcher
	store *cutting
	left  int
	err   error
}

func (w *cutWatcher) Next(ctx context.Context) ([]storage.Event, error) {
	if w.err == nil && w.left == 0 {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		w.err = w.store.cut(ctx)
		w.Close()
	}
	if w.err != nil {
		return nil, w.err
	}
	events, err := w.Watcher.Next(ctx)
	if err == nil {
		w.left--
	}
	return events, err
}

func (w *cutWatcher) RequestProgress(ctx context.Context) error {
	return storage.RequestProgress(ctx, w.Watcher)
}
