package storagetest

import (
	"context"
	"errors"
	"maps"
	"slices"
	"testing"
	"time"

	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/memstore"
)

// modest is a store that keeps neither a time to live nor the past, and says so.
func modest() storage.Store {
	b := &broken{Store: memstore.New()}
	b.commit = func(ctx context.Context, c storage.Change) (storage.Record, error) {
		if c.TTL > 0 && c.Op != storage.Delete && c.TTL%time.Second == 0 {
			return storage.Record{}, errors.ErrUnsupported
		}
		return b.Store.Commit(ctx, c)
	}
	past := func(ctx context.Context, at storage.Revision) bool {
		now, err := b.Store.Revision(ctx)
		return err == nil && at > 0 && at < now
	}
	b.get = func(ctx context.Context, key storage.Key, at storage.Revision) (storage.Record, error) {
		if past(ctx, at) {
			return storage.Record{}, storage.ErrCompacted
		}
		return b.Store.Get(ctx, key, at)
	}
	b.list = func(ctx context.Context, prefix storage.Key, o storage.ListOptions) (storage.Page, error) {
		if past(ctx, o.At) {
			return storage.Page{}, storage.ErrCompacted
		}
		return b.Store.List(ctx, prefix, o)
	}
	return b
}

// TestLacks: a store may lack what it is said to lack, and nothing else. One that does it
// all the same, or pretends to, is found out.
func TestLacks(t *testing.T) {
	whole := func() storage.Store { return memstore.New() }
	forgets := func() storage.Store {
		b := &broken{Store: memstore.New()}
		b.commit = func(ctx context.Context, c storage.Change) (storage.Record, error) {
			c.TTL = 0
			return b.Store.Commit(ctx, c)
		}
		return b
	}
	for name, test := range map[string]struct {
		store      func() storage.Store
		lacks      []Feature
		complaints []string
	}{
		"modest":                  {modest, []Feature{TimeToLive, History}, nil},
		"modest, and not said":    {modest, nil, []string{"get at a revision", "list at a revision", "ttl"}},
		"whole":                   {whole, []Feature{TimeToLive, History}, []string{"no history", "no time to live"}},
		"ignores the TTL":         {forgets, []Feature{TimeToLive}, []string{"no time to live"}},
		"lacks the past, no more": {modest, []Feature{History}, []string{"ttl"}},
	} {
		t.Run(name, func(t *testing.T) {
			found := complaints(t, test.store, test.lacks...)
			if test.complaints == nil && len(found) > 0 {
				t.Errorf("complaints: %v", found)
			}
			for _, check := range test.complaints {
				if found[check] == nil {
					t.Errorf("check %q did not complain; others: %v", check, slices.Sorted(maps.Keys(found)))
				}
			}
		})
	}
}

// TestVirtualTime: a whole run on a store in memory takes no time to live.
func TestVirtualTime(t *testing.T) {
	Run(t, func(testing.TB) storage.Store { return memstore.New() }, VirtualTime())
}
