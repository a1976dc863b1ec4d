package embedded_test

import (
	"context"
	"errors"
	"testing"

	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/etcdstore/embedded"
)

// Calls that are under way when the server stops, or come later, end with an
// error and disturb nothing.
func TestStopUnderLoad(t *testing.T) {
	for range 5 {
		server := start(t, embedded.Config{Dir: t.TempDir()})
		store := server.store(t)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		ended := make(chan error)
		const callers = 8
		for i := range callers {
			go func() {
				var err error
				// Goexit, with which etcd's last words end a goroutine, leaves
				// err nil.
				defer func() { ended <- err }()
				for err == nil {
					err = load(ctx, store, i)
				}
			}()
		}
		if _, err := store.Commit(ctx, storage.Change{Key: "/begun"}); err != nil {
			t.Error(err)
		}
		server.stop(t)
		for range callers {
			if err := <-ended; err == nil || ctx.Err() != nil {
				t.Errorf("a call on a server that stopped: error %v, context %v", err, ctx.Err())
			}
		}
		if _, err := store.Get(ctx, "/late", 0); err == nil || errors.Is(err, storage.ErrNotFound) {
			t.Errorf("get after the stop: %v", err)
		}
		cancel()
	}
}

// load makes one call, of a kind by i.
func load(ctx context.Context, store storage.Store, i int) error {
	switch i % 4 {
	case 0:
		_, err := store.List(ctx, "/", storage.ListOptions{})
		return err
	case 1:
		r, err := store.Commit(ctx, storage.Change{Key: "/a"})
		if errors.Is(err, storage.ErrExists) {
			_, err = store.Commit(ctx, storage.Change{Op: storage.Update, Key: "/a", Previous: r.Revision})
		}
		if errors.Is(err, storage.ErrConflict) {
			return nil
		}
		return err
	case 2:
		_, err := store.Get(ctx, "/none", 0)
		if errors.Is(err, storage.ErrNotFound) {
			return nil
		}
		return err
	}
	w, err := store.Watch(ctx, "/", 0)
	if err != nil {
		return err
	}
	defer w.Close()
	_, err = w.Next(ctx)
	return err
}
