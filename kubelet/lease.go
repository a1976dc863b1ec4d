package kubelet

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// leaseRetry is the delay after a failed renewal.
const leaseRetry = 2 * time.Second

// renewLease renews the node's Lease until ctx is done. It is the node's heartbeat and does not
// depend on the pods.
func (k *Kubelet) renewLease(ctx context.Context) {
	var lease *coordinationv1.Lease
	for {
		next, err := k.renewOnce(ctx, lease)
		pause := k.config.Heartbeat.leasePeriod()
		if lease = next; err != nil {
			if ctx.Err() == nil {
				k.log.Error(err, "renew lease", "node", k.config.NodeName)
			}
			lease, pause = nil, leaseRetry
		}
		if !sleep(ctx, pause) {
			return
		}
	}
}

// renewOnce renews the lease. It reads the lease first if lease is nil.
func (k *Kubelet) renewOnce(ctx context.Context, lease *coordinationv1.Lease) (*coordinationv1.Lease, error) {
	// A renewal is useless after the lease has expired.
	ctx, cancel := context.WithTimeout(ctx, k.config.Heartbeat.leasePeriod())
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
func (k *Kubelet) newLease(ctx context.Context) (*coordinationv1.Lease, error) {
	node, err := k.config.Nodes.Get(ctx, "", k.config.NodeName)
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

func (k *Kubelet) fill(lease *coordinationv1.Lease) {
	duration := k.config.Heartbeat.LeaseSeconds
	lease.Spec.HolderIdentity = &k.config.NodeName
	lease.Spec.LeaseDurationSeconds = &duration
	lease.Spec.RenewTime = &metav1.MicroTime{Time: time.Now()}
}
