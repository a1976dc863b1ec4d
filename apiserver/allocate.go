package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/storage"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// claimTime is how long a name is kept for an object that is not there. An
// object is not stored later than half of it after it has taken its names, so
// that clocks may differ by the other half.
const claimTime = time.Minute

// A claim is stored under the name it is for. It says who has it.
type claim struct {
	Holder storage.Key `json:"holder"`
	UID    types.UID   `json:"uid"`
	Time   time.Time   `json:"time"`
}

// An allocator gives objects names that no two of them may have. The names are recorded in store.
type allocator struct {
	store storage.Store
	log   logr.Logger
}

// holds are the names that one attempt to store an object has taken. The nil
// value holds nothing. A claim that the object already has is renewed, because
// another server may be about to take it over. It is not in taken, because another
// attempt may rely on it.
type holds struct {
	l     *allocator
	q     *request
	claim claim
	taken []storage.Record
}

// allocate completes obj with what it needs for itself alone. The caller
// settles what it returns, with an error too.
func (l *allocator) allocate(q *request, obj, old runtime.Object, dryRun bool) (*holds, error) {
	a := q.kind.Allocation
	if a == nil || q.sub != nil {
		return nil, nil
	}
	if err := l.adopt(q.r.Context(), q.kind); err != nil {
		return nil, err
	}
	m := accessor(obj)
	h := &holds{l: l, q: q, claim: claim{q.kind.key(m.GetNamespace(), m.GetName()), m.GetUID(), time.Now()}}
	return h, a.Fill(obj, old, func(name string) (bool, error) { return h.take(name, dryRun) })
}

// take claims a name, unless it only looks, and reports whether it is free.
func (h *holds) take(name string, look bool) (bool, error) {
	ctx, key := h.q.r.Context(), storage.Key(h.q.kind.held+name)
	value, err := json.Marshal(h.claim)
	if err != nil {
		return false, err
	}
	for {
		record, err := h.l.store.Get(ctx, key, 0)
		change := storage.Change{Op: storage.Create, Key: key, Value: value}
		own := false
		switch {
		case err == nil:
			var free bool
			if free, own, err = h.mayTake(ctx, record); err != nil || !free || look {
				return free, err
			}
			change.Op, change.Previous = storage.Update, record.Revision
		case !errors.Is(err, storage.ErrNotFound):
			return false, err
		case look:
			return true, nil
		}
		record, err = h.l.store.Commit(ctx, change)
		switch {
		case err == nil:
			if !own {
				h.taken = append(h.taken, record)
			}
			return true, nil
		case !errors.Is(err, storage.ErrExists) && !errors.Is(err, storage.ErrConflict) && !errors.Is(err, storage.ErrNotFound):
			return false, err
		}
	}
}

// mayTake reports whether the object that record is claimed for is this one, or
// has it no more.
func (h *holds) mayTake(ctx context.Context, record storage.Record) (free, own bool, err error) {
	var c claim
	if err := json.Unmarshal(record.Value, &c); err != nil {
		return false, false, fmt.Errorf("stored claim %s cannot be decoded: %w", record.Key, err)
	}
	if c.UID == h.claim.UID {
		return true, true, nil
	}
	if time.Since(c.Time) < claimTime {
		return false, false, nil
	}
	holder, err := h.l.store.Get(ctx, c.Holder, 0)
	if errors.Is(err, storage.ErrNotFound) {
		return true, false, nil
	}
	if err != nil {
		return false, false, err
	}
	obj, err := h.q.kind.decode(holder)
	if err != nil {
		return false, false, err
	}
	name := string(record.Key[len(h.q.kind.held):])
	return accessor(obj).GetUID() != c.UID || !slices.Contains(h.q.kind.Allocation.Names(obj), name), false, nil
}

// late refuses to store the object if another server may soon take over its claims.
func (h *holds) late() error {
	if h != nil && time.Since(h.claim.Time) > claimTime/2 {
		return apierrors.NewServerTimeout(h.q.kind.gr, h.q.info.Verb, 0)
	}
	return nil
}

// settle gives back what was taken where the object was certainly not stored.
func (h *holds) settle(err error) {
	var status apierrors.APIStatus
	if h == nil || err == nil {
		return
	}
	if !errors.As(err, &status) && !errors.Is(err, storage.ErrExists) &&
		!errors.Is(err, storage.ErrConflict) && !errors.Is(err, storage.ErrNotFound) {
		return
	}
	for _, record := range h.taken {
		h.l.unclaim(h.q, record)
	}
}

// giveBack releases what old had and obj, nil when it is gone, has not since
// revision. A later claim is that of a later change, which wants it again.
func (l *allocator) giveBack(q *request, old, obj runtime.Object, revision storage.Revision) {
	a := q.kind.Allocation
	if a == nil {
		return
	}
	var kept []string
	if obj != nil {
		kept = a.Names(obj)
	}
	for _, name := range a.Names(old) {
		if slices.Contains(kept, name) {
			continue
		}
		record, err := l.store.Get(context.WithoutCancel(q.r.Context()), storage.Key(q.kind.held+name), 0)
		var c claim
		if err == nil && record.Revision < revision && json.Unmarshal(record.Value, &c) == nil && c.UID == accessor(old).GetUID() {
			l.unclaim(q, record)
		}
	}
}

// unclaim deletes a claim if it is still that one. A failure costs a minute: the
// claim's object does not have the name, as the next who wants it will see.
func (l *allocator) unclaim(q *request, record storage.Record) {
	change := storage.Change{Op: storage.Delete, Key: record.Key, Previous: record.Revision}
	if _, err := l.store.Commit(context.WithoutCancel(q.r.Context()), change); err != nil &&
		!errors.Is(err, storage.ErrConflict) && !errors.Is(err, storage.ErrNotFound) {
		l.log.Error(err, "cannot give back", "key", record.Key)
	}
}

// adoption holds a token for the goroutine that does the work of adopt. It is closed
// when the work is done.
type adoption chan struct{}

func newAdoption() adoption {
	a := make(adoption, 1)
	a <- struct{}{}
	return a
}

// adopt claims what stored objects hold without a claim: those that another
// program has stored. It is done once, before anything is allocated, since
// servers claim before they store. Such a claim has no time: each request that wants
// the name checks whether the claim's object is still there.
func (l *allocator) adopt(ctx context.Context, k *kind) (err error) {
	select {
	case _, todo := <-k.adoption:
		if !todo {
			return nil
		}
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() {
		if err == nil {
			close(k.adoption)
			return
		}
		k.adoption <- struct{}{}
	}()
	// The claims first: the server that stores an object after they are read has
	// claimed for it.
	claims, err := l.store.List(ctx, storage.Key(k.held), storage.ListOptions{})
	if err != nil {
		return err
	}
	claimed := make(map[storage.Key]bool, len(claims.Records))
	for _, record := range claims.Records {
		claimed[record.Key] = true
	}
	objects, err := l.store.List(ctx, storage.Key(k.root), storage.ListOptions{})
	if err != nil {
		return err
	}
	for _, record := range objects.Records {
		if err := l.adoptOne(ctx, k, record, claimed); err != nil {
			return fmt.Errorf("claim for %s: %w", record.Key, err)
		}
	}
	return nil
}

// adoptOne claims what one object holds. What cannot be decoded holds nothing
// that is known.
func (l *allocator) adoptOne(ctx context.Context, k *kind, record storage.Record, claimed map[storage.Key]bool) error {
	obj, err := k.decode(record)
	if err != nil {
		l.log.Error(err, "object left out of allocation", "key", string(record.Key))
		return nil
	}
	for _, name := range k.Allocation.Names(obj) {
		key := storage.Key(k.held + name)
		if claimed[key] {
			continue
		}
		value, err := json.Marshal(claim{Holder: record.Key, UID: accessor(obj).GetUID()})
		if err != nil {
			return err
		}
		_, err = l.store.Commit(ctx, storage.Change{Op: storage.Create, Key: key, Value: value})
		if err != nil && !errors.Is(err, storage.ErrExists) {
			return err
		}
	}
	return nil
}
