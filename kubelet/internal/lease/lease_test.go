package lease_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/planekit/planekit/kubelet/internal/lease"
)

// leases is an API with at most one Lease, which fails as long as down is set.
type leases struct {
	mu       sync.Mutex
	lease    *coordinationv1.Lease
	down     bool
	renewals int
}

func (l *leases) Get(context.Context, string, string) (*coordinationv1.Lease, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		return nil, errors.New("the API does not answer")
	}
	if l.lease == nil {
		return nil, apierrors.NewNotFound(coordinationv1.Resource("leases"), "n")
	}
	return l.lease, nil
}

func (l *leases) Create(ctx context.Context, in *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	return l.Update(ctx, in)
}

func (l *leases) Update(_ context.Context, in *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down {
		return nil, errors.New("the API does not answer")
	}
	l.lease = in
	l.renewals++
	return in, nil
}

// TestKeeper: the Lease belongs to the Node and is renewed every quarter of its time, and again when an API that
// was away is back.
func TestKeeper(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		api := &leases{}
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n", UID: "u"}}
		keeper := lease.New(lease.Config{
			Leases: api, NodeName: "n", Seconds: 40, Node: func(context.Context) (*corev1.Node, error) { return node, nil },
		})
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		go keeper.Run(ctx)
		time.Sleep(101 * time.Second)
		api.mu.Lock()
		if s := api.lease.Spec; api.renewals != 11 || api.lease.OwnerReferences[0].UID != "u" || *s.HolderIdentity != "n" || *s.LeaseDurationSeconds != 40 || time.Since(s.RenewTime.Time) != time.Second {
			t.Errorf("%d renewals, the last: %+v", api.renewals, api.lease)
		}
		api.down = true
		api.mu.Unlock()
		time.Sleep(time.Minute)
		api.mu.Lock()
		api.down, api.renewals = false, 0
		api.mu.Unlock()
		time.Sleep(3 * time.Second)
		api.mu.Lock()
		defer api.mu.Unlock()
		if api.renewals == 0 {
			t.Error("the Lease is not renewed after the API was away")
		}
	})
}
