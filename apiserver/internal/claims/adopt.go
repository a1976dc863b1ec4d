package claims

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"

	"github.com/planekit/planekit/storage"
)

// adopt claims the names of stored objects without a claim, which another program has stored. It
// runs once, before anything is allocated. Such a claim has no time: each request for the name
// checks whether the object of the claim still exists.
func (t *Table) adopt(ctx context.Context) (err error) {
	select {
	case _, todo := <-t.adoption:
		if !todo {
			return nil
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() {
		if err == nil {
			close(t.adoption)
			return
		}
		t.adoption <- struct{}{}
	}()
	// Read the claims first: a server that stores an object afterwards has claimed its names.
	claimed, err := t.claimed(ctx)
	if err != nil {
		return err
	}
	objects, err := t.config.Store.List(ctx, t.config.Objects, storage.ListOptions{})
	if err != nil {
		return err
	}
	for _, record := range objects.Records {
		if err := t.adoptOne(ctx, record, claimed); err != nil {
			return fmt.Errorf("claim for %s: %w", record.Key, err)
		}
	}
	return nil
}

// claimed returns the keys of all claims.
func (t *Table) claimed(ctx context.Context) (map[storage.Key]bool, error) {
	claims, err := t.config.Store.List(ctx, t.config.Held, storage.ListOptions{})
	if err != nil {
		return nil, err
	}
	all := make(map[storage.Key]bool, len(claims.Records))
	for _, record := range claims.Records {
		all[record.Key] = true
	}
	if t.config.Shown == nil {
		return all, nil
	}
	shown, err := t.shown(ctx)
	maps.Copy(all, shown)
	for _, record := range claims.Records {
		// An earlier version stored a record where there is an object now.
		name := strings.TrimPrefix(string(record.Key), string(t.config.Held))
		if _, ok := t.config.Shown.Key(name); ok && err == nil {
			t.giveBack(ctx, record)
		}
	}
	return all, err
}

func (t *Table) shown(ctx context.Context) (map[storage.Key]bool, error) {
	page, err := t.config.Store.List(ctx, t.config.ShownRoot, storage.ListOptions{})
	if err != nil {
		return nil, err
	}
	all := make(map[storage.Key]bool, len(page.Records))
	for _, record := range page.Records {
		all[record.Key] = true
	}
	return all, nil
}

// adoptOne claims the names of one object. An object that cannot be decoded has none that are
// known.
func (t *Table) adoptOne(ctx context.Context, record storage.Record, claimed map[storage.Key]bool) error {
	uid, names, err := t.config.Names(record)
	if err != nil {
		t.config.Log.Error(err, "object left out of allocation", "key", string(record.Key))
		return nil
	}
	for _, name := range names {
		p := t.place(name)
		if claimed[p.key] {
			continue
		}
		value, err := p.encode(Claim{Holder: record.Key, UID: uid})
		if err != nil {
			return err
		}
		_, err = t.config.Store.Commit(ctx, storage.Change{Op: storage.Create, Key: p.key, Value: value})
		if err != nil && !errors.Is(err, storage.ErrExists) {
			return err
		}
	}
	return nil
}
