//go:build linux

package leases

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"github.com/planekit/planekit/cni/overlay"
)

// Acquire returns the ranges of the member's lease: those that it had before, or the first free part.
// The error is ErrFull if there is none. It may be called again, and then renews the lease.
func (l *Leases) Acquire(ctx context.Context) ([]netip.Prefix, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	records, _, err := l.c.Store.List(ctx, l.c.Prefix)
	if err != nil {
		return nil, fmt.Errorf("list leases: %w", err)
	}
	taken := make(map[string]bool, len(records))
	for _, r := range records {
		taken[r.Key] = true
		if m, err := l.parse(r); err != nil || m.Name != l.c.Name {
			continue
		} else if err := l.hold(ctx, r.Key, m, r.Revision); err == nil {
			return slices.Clone(m.Subnets), nil
		} else if !errors.Is(err, ErrConflict) {
			return nil, err
		}
	}
	for i := range l.parts {
		part := (l.first() + i) % l.parts
		if taken[l.keyOf(part)] {
			continue
		}
		m := overlay.Member{Name: l.c.Name, Subnets: l.subnets(part)}
		err := l.hold(ctx, l.keyOf(part), m, 0)
		if err == nil {
			return slices.Clone(m.Subnets), nil
		}
		if !errors.Is(err, ErrConflict) { // else another member was faster
			return nil, err
		}
	}
	return nil, ErrFull
}

// hold writes the own record. The caller holds the lock.
func (l *Leases) hold(ctx context.Context, key string, m overlay.Member, previous int64) error {
	value, err := encode(m)
	if err != nil {
		return err
	}
	revision, err := l.c.Store.Put(ctx, key, value, previous, l.c.TTL)
	if err != nil {
		return fmt.Errorf("write lease %s: %w", key, err)
	}
	l.key, l.revision, l.member = key, revision, m
	return nil
}

// Publish writes what the other members need to know of the local member to its lease, which it also renews. The
// member must have the ranges of the lease.
func (l *Leases) Publish(ctx context.Context, m overlay.Member) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.key == "" {
		return ErrNone
	}
	if m.Name != l.c.Name || !slices.Equal(m.Subnets, l.member.Subnets) {
		return fmt.Errorf("member %s with %v is not the one of the lease %s", m.Name, m.Subnets, l.key)
	}
	return l.renew(ctx, m)
}

// renew writes the own record, also if it has expired. It returns ErrLost if another member has the
// part. The caller holds the lock.
func (l *Leases) renew(ctx context.Context, m overlay.Member) error {
	err := l.hold(ctx, l.key, m, l.revision)
	if !errors.Is(err, ErrConflict) {
		return err
	}
	// The record expired, or an earlier write succeeded though it failed here.
	records, _, err := l.c.Store.List(ctx, l.key)
	if err != nil {
		return fmt.Errorf("read lease %s: %w", l.key, err)
	}
	previous := int64(0)
	for _, r := range records {
		if r.Key != l.key {
			continue
		}
		if old, err := l.parse(r); err != nil || old.Name != l.c.Name {
			return fmt.Errorf("%s: %w", l.key, ErrLost)
		}
		previous = r.Revision
	}
	if err = l.hold(ctx, l.key, m, previous); errors.Is(err, ErrConflict) {
		return fmt.Errorf("%s: %w", l.key, ErrLost)
	}
	return err
}

// Run renews the lease until ctx is done, and returns nil then. The error is ErrLost if another member
// has the lease. Other failures are logged and retried.
func (l *Leases) Run(ctx context.Context) error {
	delay := l.c.TTL / 2
	for {
		timer := time.NewTimer(delay)
		select {
		case <-ctx.Done():
			timer.Stop()
			return nil
		case <-timer.C:
		}
		err := l.renewNow(ctx)
		switch {
		case err == nil:
			delay = l.c.TTL / 2
		case errors.Is(err, ErrLost), errors.Is(err, ErrNone):
			return err
		case ctx.Err() == nil:
			l.c.Log.Error(err, "The lease is not renewed")
			delay = max(l.c.TTL/2/retries, time.Second/10)
		}
	}
}

func (l *Leases) renewNow(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.key == "" {
		return ErrNone
	}
	return l.renew(ctx, l.member)
}

// Release gives the lease up, for a member that leaves for good.
func (l *Leases) Release(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.key == "" {
		return ErrNone
	}
	if err := l.c.Store.Delete(ctx, l.key, l.revision); err != nil {
		return fmt.Errorf("delete lease %s: %w", l.key, err)
	}
	l.key = ""
	return nil
}

// Follow reports the members that hold leases until ctx is done. It is the method of an overlay.Source.
func (l *Leases) Follow(ctx context.Context, set func([]overlay.Member)) error {
	records, revision, err := l.c.Store.List(ctx, l.c.Prefix)
	if err != nil {
		return fmt.Errorf("list leases: %w", err)
	}
	members := make(map[string]overlay.Member, len(records))
	for _, r := range records {
		members[r.Key] = l.decode(r)
	}
	set(inOrder(members))
	err = l.c.Store.Watch(ctx, l.c.Prefix, revision, func(r Record, deleted bool) {
		if deleted {
			delete(members, r.Key)
		} else {
			members[r.Key] = l.decode(r)
		}
		set(inOrder(members))
	})
	if ctx.Err() != nil {
		return nil
	}
	return fmt.Errorf("watch leases: %w", err)
}

// inOrder returns the members in the order of keys.
func inOrder(members map[string]overlay.Member) []overlay.Member {
	keys := make([]string, 0, len(members))
	for key := range members {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	all := make([]overlay.Member, len(keys))
	for i, key := range keys {
		all[i] = members[key]
		all[i].Subnets = slices.Clone(all[i].Subnets)
	}
	return all
}
