// Package lease stores the lease of an election in a Lease object of Kubernetes.
//
//	shared, err := lease.New(lease.Config{Leases: leases, Namespace: "kube-system", Name: "painter"})
//	elector, err := reconcile.NewElector(reconcile.ElectorConfig{Identity: host + "_" + uuid, Lease: shared, Work: paint})
//	err = elector.Run(ctx)
//
// The record is that of client-go's leaderelection (coordination.k8s.io/v1,
// https://kubernetes.io/docs/concepts/architecture/leases/), so that candidates of both can share a
// lease.
package lease

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/planekit/planekit/reconcile"
	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Leases reads and writes Lease objects, such as a client.Resource[*coordinationv1.Lease]. It
// returns Kubernetes' API errors. It must read from the server, not from a local cache.
type Leases interface {
	Get(ctx context.Context, namespace, name string) (*coordinationv1.Lease, error)
	Create(context.Context, *coordinationv1.Lease) (*coordinationv1.Lease, error)
	Update(context.Context, *coordinationv1.Lease) (*coordinationv1.Lease, error)
}

// Config identifies the lease. All fields must be set.
type Config struct {
	Leases          Leases
	Namespace, Name string
}

// Lease implements reconcile.LeaseStore.
type Lease struct {
	config Config
	// newest is the last object read or written. Updates keep its labels and other fields.
	newest *coordinationv1.Lease
}

// New validates c and returns a Lease. It sends no request.
func New(c Config) (*Lease, error) {
	switch {
	case c.Leases == nil:
		return nil, errors.New("lease: no Leases")
	case c.Namespace == "":
		return nil, errors.New("lease: no Namespace")
	case c.Name == "":
		return nil, errors.New("lease: no Name")
	}
	return &Lease{config: c}, nil
}

// Get implements reconcile.LeaseStore.
func (l *Lease) Get(ctx context.Context) (reconcile.LeaseRecord, error) {
	got, err := l.config.Leases.Get(ctx, l.config.Namespace, l.config.Name)
	switch {
	case apierrors.IsNotFound(err):
		l.newest = nil
		return reconcile.LeaseRecord{}, nil
	case err != nil:
		return reconcile.LeaseRecord{}, fmt.Errorf("get lease %s/%s: %w", l.config.Namespace, l.config.Name, err)
	}
	return l.keep(got), nil
}

// Put implements reconcile.LeaseStore.
func (l *Lease) Put(ctx context.Context, r reconcile.LeaseRecord) (reconcile.LeaseRecord, error) {
	write, first := l.config.Leases.Create, true
	object := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: l.config.Namespace, Name: l.config.Name}}
	if r.Version != "" {
		if l.newest == nil || l.newest.ResourceVersion != r.Version {
			return reconcile.LeaseRecord{}, reconcile.ErrLeaseConflict
		}
		object = l.newest.DeepCopy() // the object may be shared
		write, first = l.config.Leases.Update, false
	}
	fill(&object.Spec, r)
	put, err := write(ctx, object)
	switch {
	case apierrors.IsConflict(err), apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err) && !first: // the namespace of a first record may be missing
		return reconcile.LeaseRecord{}, reconcile.ErrLeaseConflict
	case err != nil:
		return reconcile.LeaseRecord{}, fmt.Errorf("write lease %s/%s: %w", l.config.Namespace, l.config.Name, err)
	}
	return l.keep(put), nil
}

func (l *Lease) keep(object *coordinationv1.Lease) reconcile.LeaseRecord {
	l.newest = object
	return record(object)
}

// record returns the record in object. A field that is not set is zero.
func record(object *coordinationv1.Lease) reconcile.LeaseRecord {
	r := reconcile.LeaseRecord{UID: string(object.UID), Version: object.ResourceVersion}
	spec := object.Spec
	if spec.HolderIdentity != nil {
		r.Holder = *spec.HolderIdentity
	}
	if spec.LeaseDurationSeconds != nil {
		r.Duration = time.Duration(*spec.LeaseDurationSeconds) * time.Second
	}
	if spec.AcquireTime != nil {
		r.Acquired = spec.AcquireTime.Time
	}
	if spec.RenewTime != nil {
		r.Renewed = spec.RenewTime.Time
	}
	if spec.LeaseTransitions != nil {
		r.Transitions = int(*spec.LeaseTransitions)
	}
	return r
}

// fill writes r into spec. A lease lasts whole seconds, rounded up, so that other candidates do not
// take it too early.
func fill(spec *coordinationv1.LeaseSpec, r reconcile.LeaseRecord) {
	seconds := int32((r.Duration + time.Second - 1) / time.Second)
	transitions := int32(r.Transitions)
	spec.HolderIdentity = &r.Holder
	spec.LeaseDurationSeconds = &seconds
	spec.AcquireTime = &metav1.MicroTime{Time: r.Acquired}
	spec.RenewTime = &metav1.MicroTime{Time: r.Renewed}
	spec.LeaseTransitions = &transitions
}
