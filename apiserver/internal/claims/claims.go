// Package claims records in a store which object has a name that no two objects of a resource may have:
// a cluster IP, a node port.
//
// A claim is a record under the name, written before its object is stored, in one guarded write. So of
// any number of servers one gets the name. A claim whose object is not there, or no longer has the name,
// may be taken over by a server that met it a minute ago: its server has failed, or could not give it back. With [Config.Shown],
// the claims of some names are objects that clients see, such as IPAddresses.
//
//	attempt, err := table.Begin(ctx, key, uid, false)
//	free, err := attempt.Take(ctx, "ip/10.96.0.10", false)
//	// store the object, unless attempt.Late()
//	attempt.GiveUp(ctx) // if it was not stored
package claims

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/storage"
	"k8s.io/apimachinery/pkg/types"
)

// claimTime is how long a name is kept for an object that does not exist, from when a server that wants the
// name meets its claim. An object is stored at most half of that time after it took its names.
const claimTime = time.Minute

// A Claim says which object has a name.
type Claim struct {
	// Holder is the key of the object, UID its UID. UID is empty if only the key is known.
	Holder storage.Key `json:"holder"`
	UID    types.UID   `json:"uid"`
	// Time is when the attempt to store the object began.
	Time time.Time `json:"time"`
	// Kept is set for a claim that only a client gives back.
	Kept bool `json:"-"`
}

// Shown stores claims as objects that clients see. Such a claim has no UID.
type Shown interface {
	// Key returns the key of the claim of name. ok is false if name has no such object.
	Key(name string) (key storage.Key, ok bool)
	// Encode returns the value of a new claim of name.
	Encode(name string, c Claim) ([]byte, error)
	// Renew returns the value of a stored claim with the time of c.
	Renew(record storage.Record, c Claim) ([]byte, error)
	// Decode returns a stored claim.
	Decode(record storage.Record) (Claim, error)
}

// Config says whose claims a Table holds. All fields but Log must be set.
type Config struct {
	Store storage.Store
	// Held begins the keys of the claims, and Objects those of the objects.
	Held, Objects storage.Key
	// Names decodes a stored object and returns its UID and the names that it has.
	Names func(object storage.Record) (types.UID, []string, error)
	// Shown, if not nil, has the claims of some names as objects, whose keys begin with ShownRoot.
	Shown     Shown
	ShownRoot storage.Key
	// Log is silent when zero.
	Log logr.Logger
}

// A Table holds the claims of the objects of one resource. It is safe for concurrent use.
type Table struct {
	config Config
	// adoption holds a token for the goroutine that does the work of adopt. It is closed when the
	// work is done.
	adoption chan struct{}

	mu  sync.Mutex
	met map[storage.Key]meeting // guarded by mu
}

// New returns a table. It reads nothing.
func New(c Config) *Table {
	t := &Table{config: c, adoption: make(chan struct{}, 1), met: map[storage.Key]meeting{}}
	t.adoption <- struct{}{}
	return t
}

// An Attempt is one attempt to store an object, with the names that it has taken. A claim that the
// object already has is renewed, because another server may be about to take it over. It is not in
// taken, because another attempt may rely on it. An Attempt is used by one goroutine.
type Attempt struct {
	table  *Table
	claim  Claim
	stored bool // the object is stored, and the attempt changes it
	taken  []storage.Record
}

// Begin begins an attempt to store the object of uid under key, or to change it if it is stored.
func (t *Table) Begin(ctx context.Context, key storage.Key, uid types.UID, stored bool) (*Attempt, error) {
	if err := t.adopt(ctx); err != nil {
		return nil, err
	}
	return &Attempt{table: t, claim: Claim{Holder: key, UID: uid, Time: time.Now()}, stored: stored}, nil
}

// Take claims a name, unless it only looks, and reports whether the name was free or the object's
// already.
func (a *Attempt) Take(ctx context.Context, name string, look bool) (bool, error) {
	place := a.table.place(name)
	value, err := place.encode(a.claim)
	if err != nil {
		return false, err
	}
	for {
		record, err := a.try(ctx, place, value, look)
		switch {
		case errors.Is(err, storage.ErrNotFound): // it only looks
			return true, nil
		case err == nil && !look:
			a.taken = append(a.taken, record)
			return true, nil
		case err != nil && !errors.Is(err, storage.ErrExists):
			return false, err
		}
		free, own, err := a.mayTake(ctx, place, record)
		if err != nil || !free || look {
			return free, err
		}
		if own {
			err = a.renew(ctx, place, record)
		} else {
			err = a.table.unclaim(ctx, record)
		}
		if own && err == nil {
			return true, nil
		}
		if err != nil && !errors.Is(err, storage.ErrConflict) && !errors.Is(err, storage.ErrNotFound) {
			return false, err
		}
	}
}

// try creates the claim, or reads it if the attempt only looks. With ErrExists it returns the claim
// that exists.
func (a *Attempt) try(ctx context.Context, p place, value []byte, look bool) (storage.Record, error) {
	if look {
		return a.table.config.Store.Get(ctx, p.key, 0)
	}
	return a.table.config.Store.Commit(ctx, storage.Change{Op: storage.Create, Key: p.key, Value: value})
}

// renew gives the object's own claim the time of the attempt.
func (a *Attempt) renew(ctx context.Context, p place, record storage.Record) error {
	value, err := p.renew(record, a.claim)
	if err != nil {
		return err
	}
	_, err = a.table.config.Store.Commit(ctx, storage.Change{Op: storage.Update, Key: p.key, Value: value, Previous: record.Revision})
	return err
}

// mayTake reports whether the object that record names is this one, or no longer has the name.
func (a *Attempt) mayTake(ctx context.Context, p place, record storage.Record) (free, own bool, err error) {
	c, err := p.decode(record)
	if err != nil {
		return false, false, fmt.Errorf("stored claim %s cannot be decoded: %w", record.Key, err)
	}
	if c.UID != "" && c.UID == a.claim.UID || c.UID == "" && a.stored && c.Holder == a.claim.Holder {
		return true, true, nil
	}
	if c.Kept || !a.table.expired(record, c) {
		return false, false, nil
	}
	holder, err := a.table.config.Store.Get(ctx, c.Holder, 0)
	if errors.Is(err, storage.ErrNotFound) {
		return true, false, nil
	}
	if err != nil {
		return false, false, err
	}
	_, names, err := a.table.config.Names(holder)
	if err != nil {
		return false, false, err
	}
	return !slices.Contains(names, p.name), false, nil
}

// mostMet bounds the claims that a table remembers having met. Forgetting them delays a takeover.
const mostMet = 10_000

// A meeting is when this process first met a claim that is in the way, by its monotonic clock.
type meeting struct {
	revision storage.Revision
	at       time.Time
}

// expired reports whether a claim may be taken over, unless its object has the name: this process met it a
// claimTime ago and it has not changed since. The time in the claim is by another server's clock, which may be
// an hour behind: its object may be about to be stored. An adopted claim has no time and is no attempt's.
func (t *Table) expired(record storage.Record, c Claim) bool {
	if c.Time.IsZero() {
		return true
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if m, ok := t.met[record.Key]; ok && m.revision == record.Revision {
		return time.Since(m.at) >= claimTime
	}
	if len(t.met) >= mostMet {
		clear(t.met)
	}
	t.met[record.Key] = meeting{record.Revision, time.Now()}
	return false
}

// Old reports whether a claim looks left over, by clocks that may differ. Only Take decides.
func Old(c Claim) bool { return time.Since(c.Time) >= claimTime }

// Late reports whether another server may soon take over the claims: the object must not be stored.
func (a *Attempt) Late() bool { return time.Since(a.claim.Time) > claimTime/2 }

// GiveUp gives back what the attempt has taken. The object must certainly not have been stored.
func (a *Attempt) GiveUp(ctx context.Context) {
	for _, record := range a.taken {
		a.table.giveBack(ctx, record)
	}
}

// Release releases names that the object of uid under key no longer has as of revision. A later claim
// belongs to a later change, which needs the name again.
func (t *Table) Release(ctx context.Context, key storage.Key, uid types.UID, names []string, revision storage.Revision) {
	for _, name := range names {
		p := t.place(name)
		record, err := t.config.Store.Get(context.WithoutCancel(ctx), p.key, 0)
		if err != nil || record.Revision >= revision {
			continue
		}
		c, err := p.decode(record)
		if err == nil && !c.Kept && (c.UID == uid || c.UID == "" && c.Holder == key) {
			t.giveBack(ctx, record)
		}
	}
}

// giveBack deletes a claim if it is unchanged. If that fails, the name is free a minute later,
// because the object of the claim does not have it.
func (t *Table) giveBack(ctx context.Context, record storage.Record) {
	err := t.unclaim(context.WithoutCancel(ctx), record)
	if err != nil && !errors.Is(err, storage.ErrConflict) && !errors.Is(err, storage.ErrNotFound) {
		t.config.Log.Error(err, "cannot give back", "key", record.Key)
	}
}

func (t *Table) unclaim(ctx context.Context, record storage.Record) error {
	_, err := t.config.Store.Commit(ctx, storage.Change{Op: storage.Delete, Key: record.Key, Previous: record.Revision})
	return err
}
