//go:build linux

package overlays

import (
	"context"
	"errors"
	"time"

	"github.com/planekit/planekit/cni/overlay/leases"
	"github.com/planekit/planekit/storage"
)

// LeaseStore returns a store of leases that keeps them in s.
func LeaseStore(s storage.Store) leases.Store { return leaseStore{s} }

type leaseStore struct{ s storage.Store }

func (l leaseStore) List(ctx context.Context, prefix string) ([]leases.Record, int64, error) {
	page, err := l.s.List(ctx, storage.Key(prefix), storage.ListOptions{})
	if err != nil {
		return nil, 0, err
	}
	all := make([]leases.Record, 0, len(page.Records))
	for _, r := range page.Records {
		all = append(all, record(r))
	}
	return all, int64(page.Revision), nil
}

func record(r storage.Record) leases.Record {
	return leases.Record{Key: string(r.Key), Value: r.Value, Revision: int64(r.Revision)}
}

func (l leaseStore) Put(ctx context.Context, key string, value []byte, previous int64, ttl time.Duration) (int64, error) {
	c := storage.Change{Op: storage.Update, Key: storage.Key(key), Value: value, Previous: storage.Revision(previous), TTL: ttl}
	if previous == 0 {
		c.Op = storage.Create
	}
	r, err := l.s.Commit(ctx, c)
	return int64(r.Revision), guard(err)
}

func (l leaseStore) Delete(ctx context.Context, key string, previous int64) error {
	_, err := l.s.Commit(ctx, storage.Change{Op: storage.Delete, Key: storage.Key(key), Previous: storage.Revision(previous)})
	return guard(err)
}

// guard maps the errors of a guard that failed.
func guard(err error) error {
	if errors.Is(err, storage.ErrExists) || errors.Is(err, storage.ErrNotFound) || errors.Is(err, storage.ErrConflict) {
		return errors.Join(leases.ErrConflict, err)
	}
	return err
}

func (l leaseStore) Watch(ctx context.Context, prefix string, after int64, handle func(r leases.Record, deleted bool)) error {
	w, err := l.s.Watch(ctx, storage.Key(prefix), storage.Revision(after))
	if err != nil {
		return err
	}
	defer w.Close()
	for {
		events, err := w.Next(ctx)
		if err != nil {
			return err
		}
		for _, e := range events {
			if e.Type != storage.Progress {
				handle(record(e.Record), e.Type == storage.Deleted)
			}
		}
	}
}
