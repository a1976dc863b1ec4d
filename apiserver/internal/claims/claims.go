// Package claims records in a store which object has a name that no two objects of a resource may have:
// a cluster IP, a node port.
//
// A claim is a record under the name, written before its object is stored, in one guarded write. So of
// any number of servers one gets the name. A claim whose object is not there, or no longer has the name,
// may be taken over after a minute: its server has failed, or could not give it back.
//
//	attempt, err := table.Begin(ctx, key, uid)
//	free, err := attempt.Take(ctx, "ip/10.96.0.10", false)
//	// store the object, unless attempt.Late()
//	attempt.GiveUp(ctx) // if it was not stored
package claims

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/storage"
	"k8s.io/apimachinery/pkg/types"
)

// claimTime is how long a name is kept for an object that does not exist. An object is stored at
// most half of that time after it took its names; the other half allows for clocks that differ.
const claimTime = time.Minute

// A claim is stored under a name and says which object has it.
type claim struct {
	Holder storage.Key `json:"holder"`
	UID    types.UID   `json:"uid"`
	Time   time.Time   `json:"time"`
}

// Config says whose claims a Table holds. All fields but Log must be set.
type Config struct {
	Store storage.Store
	// Held begins the keys of the claims, and Objects those of the objects.
	Held, Objects storage.Key
	// Names decodes a stored object and returns its UID and the names that it has.
	Names func(object storage.Record) (types.UID, []string, error)
	// Log is silent when zero.
	Log logr.Logger
}

// A Table holds the claims of the objects of one resource. It is safe for concurrent use.
type Table struct {
	config Config
	// adoption holds a token for the goroutine that does the work of adopt. It is closed when the
	// work is done.
	adoption chan struct{}
}

// New returns a table. It reads nothing.
func New(c Config) *Table {
	t := &Table{config: c, adoption: make(chan struct{}, 1)}
	t.adoption <- struct{}{}
	return t
}

// An Attempt is one attempt to store an object, with the names that it has taken. A claim that the
// object already has is renewed, because another server may be about to take it over. It is not in
// taken, because another attempt may rely on it. An Attempt is used by one goroutine.
type Attempt struct {
	table *Table
	claim claim
	taken []storage.Record
}

// Begin begins an attempt to store the object of uid under key.
func (t *Table) Begin(ctx context.Context, key storage.Key, uid types.UID) (*Attempt, error) {
	if err := t.adopt(ctx); err != nil {
		return nil, err
	}
	return &Attempt{table: t, claim: claim{key, uid, time.Now()}}, nil
}

// Take claims a name, unless it only looks, and reports whether the name was free or the object's
// already.
func (a *Attempt) Take(ctx context.Context, name string, look bool) (bool, error) {
	store, key := a.table.config.Store, a.table.config.Held+storage.Key(name)
	value, err := json.Marshal(a.claim)
	if err != nil {
		return false, err
	}
	for {
		record, err := store.Get(ctx, key, 0)
		change := storage.Change{Op: storage.Create, Key: key, Value: value}
		own := false
		switch {
		case err == nil:
			var free bool
			if free, own, err = a.mayTake(ctx, record); err != nil || !free || look {
				return free, err
			}
			change.Op, change.Previous = storage.Update, record.Revision
		case !errors.Is(err, storage.ErrNotFound):
			return false, err
		case look:
			return true, nil
		}
		record, err = store.Commit(ctx, change)
		switch {
		case err == nil:
			if !own {
				a.taken = append(a.taken, record)
			}
			return true, nil
		case !errors.Is(err, storage.ErrExists) && !errors.Is(err, storage.ErrConflict) && !errors.Is(err, storage.ErrNotFound):
			return false, err
		}
	}
}

// mayTake reports whether the object that record names is this one, or no longer has the name.
func (a *Attempt) mayTake(ctx context.Context, record storage.Record) (free, own bool, err error) {
	var c claim
	if err := json.Unmarshal(record.Value, &c); err != nil {
		return false, false, fmt.Errorf("stored claim %s cannot be decoded: %w", record.Key, err)
	}
	if c.UID == a.claim.UID {
		return true, true, nil
	}
	if time.Since(c.Time) < claimTime {
		return false, false, nil
	}
	holder, err := a.table.config.Store.Get(ctx, c.Holder, 0)
	if errors.Is(err, storage.ErrNotFound) {
		return true, false, nil
	}
	if err != nil {
		return false, false, err
	}
	uid, names, err := a.table.config.Names(holder)
	if err != nil {
		return false, false, err
	}
	name := string(record.Key[len(a.table.config.Held):])
	return uid != c.UID || !slices.Contains(names, name), false, nil
}

// Late reports whether another server may soon take over the claims: the object must not be stored.
func (a *Attempt) Late() bool { return time.Since(a.claim.Time) > claimTime/2 }

// GiveUp gives back what the attempt has taken. The object must certainly not have been stored.
func (a *Attempt) GiveUp(ctx context.Context) {
	for _, record := range a.taken {
		a.table.unclaim(ctx, record)
	}
}

// Release releases names that the object of uid no longer has as of revision. A later claim belongs
// to a later change, which needs the name again.
func (t *Table) Release(ctx context.Context, uid types.UID, names []string, revision storage.Revision) {
	for _, name := range names {
		record, err := t.config.Store.Get(context.WithoutCancel(ctx), t.config.Held+storage.Key(name), 0)
		var c claim
		if err == nil && record.Revision < revision && json.Unmarshal(record.Value, &c) == nil && c.UID == uid {
			t.unclaim(ctx, record)
		}
	}
}

// unclaim deletes a claim if it is unchanged. If that fails, the name is free a minute later,
// because the object of the claim does not have it.
func (t *Table) unclaim(ctx context.Context, record storage.Record) {
	change := storage.Change{Op: storage.Delete, Key: record.Key, Previous: record.Revision}
	if _, err := t.config.Store.Commit(context.WithoutCancel(ctx), change); err != nil &&
		!errors.Is(err, storage.ErrConflict) && !errors.Is(err, storage.ErrNotFound) {
		t.config.Log.Error(err, "cannot give back", "key", record.Key)
	}
}

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
	claims, err := t.config.Store.List(ctx, t.config.Held, storage.ListOptions{})
	if err != nil {
		return err
	}
	claimed := make(map[storage.Key]bool, len(claims.Records))
	for _, record := range claims.Records {
		claimed[record.Key] = true
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

// adoptOne claims the names of one object. An object that cannot be decoded has none that are
// known.
func (t *Table) adoptOne(ctx context.Context, record storage.Record, claimed map[storage.Key]bool) error {
	uid, names, err := t.config.Names(record)
	if err != nil {
		t.config.Log.Error(err, "object left out of allocation", "key", string(record.Key))
		return nil
	}
	for _, name := range names {
		key := t.config.Held + storage.Key(name)
		if claimed[key] {
			continue
		}
		value, err := json.Marshal(claim{Holder: record.Key, UID: uid})
		if err != nil {
			return err
		}
		_, err = t.config.Store.Commit(ctx, storage.Change{Op: storage.Create, Key: key, Value: value})
		if err != nil && !errors.Is(err, storage.ErrExists) {
			return err
		}
	}
	return nil
}
