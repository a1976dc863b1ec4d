package etcdstore

import (
	"context"
	"fmt"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
)

const (
	// A lease is shared for leaseReuse of its TTL, at most for longestReuse, and by at most
	// leaseKeys changes, because etcd deletes the keys of a lease in one transaction. The values
	// are kube-apiserver's.
	leaseReuse   = 0.05
	longestReuse = time.Minute
	leaseKeys    = 1000
)

// A lease is an etcd lease that further changes can use.
type lease struct {
	id    clientv3.LeaseID
	until time.Time // when it becomes too old to be shared
	keys  int       // number of changes that use it
}

// leases makes changes with the same TTL that come close together share an etcd lease, which lasts
// slightly longer than the TTL.
type leases struct {
	// turn holds one token and guards current. It is a channel because a grant takes a round trip,
	// and a waiting caller may give up.
	turn    chan struct{}
	current map[time.Duration]lease
}

func newLeases() *leases {
	return &leases{turn: make(chan struct{}, 1), current: map[time.Duration]lease{}}
}

// get returns a lease that ends after ttl or slightly later.
func (l *leases) get(ctx context.Context, client *clientv3.Client, ttl time.Duration) (clientv3.LeaseID, error) {
	if ttl == 0 {
		return clientv3.NoLease, nil
	}
	if err := l.take(ctx); err != nil {
		return clientv3.NoLease, err
	}
	defer l.pass()
	shared, ok := l.current[ttl]
	if !ok || shared.keys == leaseKeys || !time.Now().Before(shared.until) {
		reuse := min(time.Duration(float64(ttl)*leaseReuse), longestReuse)
		granted := time.Now()
		// etcd counts in seconds. Round up, so that records do not expire early.
		response, err := client.Grant(ctx, int64((ttl+reuse+time.Second-1)/time.Second))
		if err != nil {
			return clientv3.NoLease, fmt.Errorf("lease of %v: %w", ttl, err)
		}
		shared = lease{id: response.ID, until: granted.Add(reuse)}
		l.tidy()
	}
	shared.keys++
	l.current[ttl] = shared
	return shared.id, nil
}

// tidy drops leases that are too old to be shared. The turn is taken.
func (l *leases) tidy() {
	for ttl, old := range l.current {
		if !time.Now().Before(old.until) {
			delete(l.current, ttl)
		}
	}
}

// drop forgets a lease that etcd has revoked.
func (l *leases) drop(ctx context.Context, id clientv3.LeaseID) error {
	if err := l.take(ctx); err != nil {
		return err
	}
	defer l.pass()
	for ttl, lost := range l.current {
		if lost.id == id {
			delete(l.current, ttl)
		}
	}
	return nil
}

// take waits for the turn.
func (l *leases) take(ctx context.Context) error {
	select {
	case l.turn <- struct{}{}:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (l *leases) pass() { <-l.turn }
