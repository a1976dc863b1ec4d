package reconcile_test

import (
	"context"
	"fmt"
	"strconv"

	"github.com/planekit/planekit/reconcile"
)

// slate is a lease in memory; package lease has the one in an API server.
type slate struct{ record reconcile.LeaseRecord }

func (s *slate) Get(context.Context) (reconcile.LeaseRecord, error) { return s.record, nil }

func (s *slate) Put(_ context.Context, r reconcile.LeaseRecord) (reconcile.LeaseRecord, error) {
	if r.Version != s.record.Version {
		return r, reconcile.ErrLeaseConflict
	}
	version, _ := strconv.Atoi(r.Version)
	r.UID, r.Version = "the only one", strconv.Itoa(version+1)
	s.record = r
	return r, nil
}

// The Run method of a controller can be the leader's work, so that the controller runs in one of
// many processes.
func ExampleElector() {
	ctx, cancel := context.WithCancel(context.Background())
	lease := &slate{}
	c, err := reconcile.New(reconcile.Config[string]{Name: "bulbs", Reconcile: func(ctx context.Context, key string) (reconcile.Result, error) {
		fence, _ := reconcile.FenceOf(ctx) // marks writes
		fmt.Println(key, "is looked at by", fence.Holder, "in term", fence.Term)
		cancel()
		return reconcile.Result{}, nil
	}})
	if err != nil {
		fmt.Println(err)
		return
	}
	c.Enqueue("hall")
	elector, err := reconcile.NewElector(reconcile.ElectorConfig{Identity: "host-1_7f3a", Lease: lease, Work: c.Run})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(elector.Run(ctx))
	fmt.Printf("the lease is held by %q\n", lease.record.Holder)
	// Output:
	// hall is looked at by host-1_7f3a in term 0
	// <nil>
	// the lease is held by ""
}
