package plane

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/plane/stack"
	"github.com/planekit/planekit/storage"
)

// A StoreOpener opens a store that is kept in a directory. What the store stands on runs on s, and ends with
// the control plane, after all that uses the store. The store is ready when a StoreOpener returns.
type StoreOpener func(ctx context.Context, dir string, s *stack.Stack, log logr.Logger) (storage.Store, error)

// errNotOpen means that a store is used outside of [Plane.Run].
var errNotOpen = errors.New("plane: the store is not open: Run opens it")

// openedStore is a store that Run opens, so that a server can be made of it before.
type openedStore struct{ opened atomic.Pointer[storage.Store] }

var _ storage.Current = (*openedStore)(nil)

// open opens the store below all other parts.
func (o *openedStore) open(ctx context.Context, p *Plane) error {
	store, err := p.config.OpenStore(ctx, p.config.Dir, p.stack, p.config.Log.WithName("storage"))
	if err != nil {
		return fmt.Errorf("open the store: %w", err)
	}
	o.opened.Store(&store)
	return nil
}

func (o *openedStore) store() (storage.Store, error) {
	store := o.opened.Load()
	if store == nil {
		return nil, errNotOpen
	}
	return *store, nil
}

// Get implements [storage.Store].
func (o *openedStore) Get(ctx context.Context, key storage.Key, at storage.Revision) (storage.Record, error) {
	store, err := o.store()
	if err != nil {
		return storage.Record{}, err
	}
	return store.Get(ctx, key, at)
}

// List implements [storage.Store].
func (o *openedStore) List(ctx context.Context, prefix storage.Key, options storage.ListOptions) (storage.Page, error) {
	store, err := o.store()
	if err != nil {
		return storage.Page{}, err
	}
	return store.List(ctx, prefix, options)
}

// Commit implements [storage.Store].
func (o *openedStore) Commit(ctx context.Context, c storage.Change) (storage.Record, error) {
	store, err := o.store()
	if err != nil {
		return storage.Record{}, err
	}
	return store.Commit(ctx, c)
}

// Watch implements [storage.Store].
func (o *openedStore) Watch(ctx context.Context, prefix storage.Key, after storage.Revision) (storage.Watcher, error) {
	store, err := o.store()
	if err != nil {
		return nil, err
	}
	return store.Watch(ctx, prefix, after)
}

// Revision implements [storage.Current].
func (o *openedStore) Revision(ctx context.Context) (storage.Revision, error) {
	store, err := o.store()
	if err != nil {
		return 0, err
	}
	return storage.Now(ctx, store)
}
