// Package lease renews the Lease of a node, which is its heartbeat.
//
//	keeper := lease.New(lease.Config{Leases: leases, Node: node, NodeName: "node-1", Seconds: 40})
//	keeper.Run(ctx)
package lease

import (
	"context"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/kubelet/internal/pause"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// retry is the delay after a failed renewal.
const retry = 2 * time.Second

// Leases reads and writes Leases in the API, in the namespace kube-node-lease.
type Leases interface {
	Get(ctx context.Context, namespace, name string) (*coordinationv1.Lease, error)
	Create(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error)
	Update(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error)
}

// Config describes a Keeper. All fields but Log must be set.
type Config struct {
	Leases Leases
	// Node reads the Node, with which the Lease is deleted.
	Node     func(ctx context.Context) (*corev1.Node, error)
	NodeName string
	// Seconds is for how long the Lease is valid. It is renewed after a quarter of that.
	Seconds int32
	Log     logr.Logger
}

// Keeper renews a Lease.
type Keeper struct{ config Config }

// New returns a keeper.
func New(c Config) *Keeper { return &Keeper{c} }

func (k *Keeper) period() time.Duration { return time.Duration(k.config.Seconds) * time.Second / 4 }

// Run renews the Lease until ctx is done. It does not depend on the pods.
func (k *Keeper) Run(ctx context.Context) {
	var lease *coordinationv1.Lease
	for {
		next, err := k.renewOnce(ctx, lease)
		wait := k.period()
		if lease = next; err != nil {
			if ctx.Err() == nil {
				k.config.Log.Error(err, "renew lease", "node", k.config.NodeName)
			}
			lease, wait = nil, retry
		}
		if !pause.For(ctx, wait) {
			return
		}
	}
}

// renewOnce renews the lease. It reads the lease first if lease is nil.
func (k *Keeper) renewOnce(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	// A renewal is useless after the lease has expired.
	ctx, cancel := context.WithTimeout(ctx, k.period())
	defer cancel()
	if lease == nil {
		have, err := k.config.Leases.Get(ctx, corev1.NamespaceNodeLease, k.config.NodeName)
		if apierrors.IsNotFound(err) {
			fresh, err := k.newLease(ctx)
			if err != nil {
				return nil, err
			}
			return k.config.Leases.Create(ctx, fresh)
		}
		if err != nil {
			return nil, err
		}
		lease = have
	}
	next := lease.DeepCopy()
	k.fill(next)
	return k.config.Leases.Update(ctx, next)
}

// newLease returns a lease that is deleted together with its Node.
func (k *Keeper) newLease(ctx context.Context) (*coordinationv1.Lease, error) {
	node, err := k.config.Node(ctx)
	if err != nil {
		return nil, err
	}
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{
		Namespace: corev1.NamespaceNodeLease, Name: k.config.NodeName,
		OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: node.Name, UID: node.UID}},
	}}
	k.fill(lease)
	return lease, nil
}

func (k *Keeper) fill(lease *coordinationv1.Lease) {
	duration := k.config.Seconds
	lease.Spec.HolderIdentity = &k.config.NodeName
	lease.Spec.LeaseDurationSeconds = &duration
	lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
}
