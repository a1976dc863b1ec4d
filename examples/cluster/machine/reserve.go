package machine

import (
	"context"
	"fmt"
	"net/netip"
	"time"

	"github.com/go-logr/logr"
)

// lockTimeout bounds the wait for another cluster that is being started or stopped, and the removal of
// clusters without an owner.
const lockTimeout = time.Minute

// A Reservation asks for a range of pod addresses.
type Reservation struct {
	// ID is the identity of the cluster, and DataDir its data directory.
	ID, DataDir string
	// Range is the range to reserve. If it is not valid, one is chosen: Kept if that is valid and free,
	// or else the first free one of Candidates.
	Range, Kept netip.Prefix
	// Reserved holds ranges that the cluster uses for other purposes.
	Reserved []Taken
	Log      logr.Logger
}

// A BlockedError says that something on the machine uses a range.
type BlockedError struct {
	Range netip.Prefix
	By    string
}

func (e *BlockedError) Error() string { return e.By + " is in the way" }

// Reserve removes the clusters without an owner, and records that the range it returns is the
// cluster's until Withdraw. It returns a *BlockedError if Reservation.Range is in use.
func (r *Registry) Reserve(ctx context.Context, want Reservation) (netip.Prefix, error) {
	none := netip.Prefix{}
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	unlock, err := r.Lock(ctx)
	if err != nil {
		return none, err
	}
	defer unlock()
	removed, err := r.Sweep(ctx, want.ID)
	if err != nil { // only its addresses are in the way of this cluster
		want.Log.Error(err, "cannot remove a cluster without an owner")
	}
	for _, id := range removed {
		want.Log.Info("removed a cluster whose data directory is gone", "id", id)
	}
	taken, err := r.Taken(want.ID)
	if err != nil {
		return none, err
	}
	pods := want.Range
	if !pods.IsValid() {
		if pods, err = Choose(want.Kept, append(want.Reserved, taken...)); err != nil {
			return none, err
		}
	} else if other := InTheWay(pods, taken); other != nil {
		return none, &BlockedError{Range: pods, By: other.By}
	}
	return pods, r.Claim(want.ID, Record{DataDir: want.DataDir, PodCIDR: pods})
}

// ReserveMachines adds a range for machines in namespaces to a reservation, of which own is the record. It
// returns want if that is valid, or else the first free one of MachineCandidates; and a *BlockedError if want is
// in use.
func (r *Registry) ReserveMachines(ctx context.Context, id string, own Record, want netip.Prefix, reserved []Taken) (netip.Prefix, error) {
	none := netip.Prefix{}
	ctx, cancel := context.WithTimeout(ctx, lockTimeout)
	defer cancel()
	unlock, err := r.Lock(ctx)
	if err != nil {
		return none, err
	}
	defer unlock()
	taken, err := r.Taken(id)
	if err != nil {
		return none, err
	}
	taken = append(append(taken, reserved...), Taken{Prefix: own.PodCIDR, By: "the range of pods"})
	if want.IsValid() {
		for _, t := range taken {
			if t.Prefix.Overlaps(want) {
				return none, &BlockedError{Range: want, By: t.By}
			}
		}
		own.Machines = want.Masked()
		return own.Machines, r.Claim(id, own)
	}
	for _, candidate := range MachineCandidates() {
		if !overlapped(candidate, taken) {
			own.Machines = candidate
			return candidate, r.Claim(id, own)
		}
	}
	return none, fmt.Errorf("no range of addresses is free for machines, of %v and those that follow", MachineCandidates()[0])
}

// Withdraw ends the reservation of a cluster of which nothing is left.
func (r *Registry) Withdraw(id string) error {
	ctx, cancel := context.WithTimeout(context.Background(), lockTimeout)
	defer cancel()
	unlock, err := r.Lock(ctx)
	if err != nil {
		return fmt.Errorf("records of clusters: %w", err)
	}
	defer unlock()
	return r.Release(id)
}
