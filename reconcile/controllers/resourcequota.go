package controllers

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/internal/usage"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// QuotaKind is one resource that quotas may count. Make it with [NewQuotaKind].
type QuotaKind struct {
	Resource schema.GroupResource
	// All, Subscribe, Synced: as in [localcache.Cache]. Absent objects are nil.
	All       func() iter.Seq[metav1.Object]
	Subscribe func(func(old, new metav1.Object)) (stop func())
	Synced    <-chan struct{}
}

// NewQuotaKind makes a QuotaKind of a copy of all objects of resource. Of what
// is only counted, a copy of the metadata does as well.
func NewQuotaKind[T interface {
	comparable
	metav1.Object
}](resource schema.GroupResource, cache localcache.Cache[T]) QuotaKind {
	var none T
	object := func(t T) metav1.Object {
		if t == none {
			return nil // and not an interface with nothing inside
		}
		return t
	}
	return QuotaKind{
		Resource: resource,
		All: func() iter.Seq[metav1.Object] {
			return func(yield func(metav1.Object) bool) {
				for t := range cache.All() {
					if !yield(t) {
						return
					}
				}
			}
		},
		Subscribe: func(handle func(old, new metav1.Object)) (stop func()) {
			return cache.Subscribe(func(old, new T) { handle(object(old), object(new)) }).Stop
		},
		Synced: cache.Synced(),
	}
}

// ResourceQuotaConfig joins a ResourceQuota controller to its surroundings. The
// first three fields must be set.
type ResourceQuotaConfig struct {
	ResourceQuotas localcache.Cache[*corev1.ResourceQuota]
	// Kinds are the resources that quotas may count. Where a quota has others,
	// their use stays unknown, and admission lets nobody make them.
	Kinds  []QuotaKind
	Status StatusUpdater[*corev1.ResourceQuota]
	// InFlight is how long it may take at most from the admission of an object
	// until the local copy shows it. Zero is a minute, the time that an API server
	// gives a request.
	InFlight time.Duration
	// Resync is how often every quota is counted anew, whatever happens. Zero is
	// five minutes, as in Kubernetes.
	Resync time.Duration
	// Workers is how many quotas are worked on at a time. Zero is 5.
	Workers int
	Log     logr.Logger
}

// ResourceQuota writes into the status of every quota what is used of it.
//
// Admission has charged every object there before it was stored. So what a copy
// lacks may be about to appear, and to count it as free would let more in than
// the quota allows. The controller therefore takes off what it has seen go: at
// once; and what was charged and never appeared: after InFlight. What is there
// and was not charged is added when it is seen.
type ResourceQuota struct {
	*loop
	config  ResourceQuotaConfig
	books   *quotaBooks
	written written
}

// NewResourceQuota checks config. It starts nothing.
func NewResourceQuota(config ResourceQuotaConfig) (*ResourceQuota, error) {
	err := required("ResourceQuotaConfig", "ResourceQuotas", config.ResourceQuotas, "Status", config.Status)
	if err != nil {
		return nil, err
	}
	if len(config.Kinds) == 0 {
		return nil, errors.New("controllers: ResourceQuotaConfig: no Kinds")
	}
	if config.InFlight < 0 || config.Resync < 0 {
		return nil, errors.New("controllers: ResourceQuotaConfig: negative InFlight or Resync")
	}
	if config.InFlight == 0 {
		config.InFlight = time.Minute
	}
	if config.Resync == 0 {
		config.Resync = 5 * time.Minute
	}
	c := &ResourceQuota{config: config, books: newQuotaBooks(config.Kinds)}
	if c.loop, err = newLoop("resourcequota", config.Workers, config.Log, reconcile.Backoff{}, c.reconcile); err != nil {
		return nil, err
	}
	watch(c.loop, config.ResourceQuotas, c.quotaChanged)
	for i, kind := range config.Kinds {
		if kind.Resource.Resource == "" || kind.All == nil || kind.Subscribe == nil || kind.Synced == nil {
			return nil, fmt.Errorf("controllers: ResourceQuotaConfig: kind %d (%s) is incomplete", i, kind.Resource)
		}
		c.subscriptions = append(c.subscriptions, func() func() {
			return kind.Subscribe(func(old, new metav1.Object) { c.objectChanged(i, old, new) })
		})
		c.synced = append(c.synced, kind.Synced)
	}
	return c, nil
}

// quotaChanged counts anew where a quota asks for something else. A charge
// alone is noted, and looked after when its object must have appeared.
func (c *ResourceQuota) quotaChanged(old, new *corev1.ResourceQuota) {
	switch {
	case new == nil:
		c.books.close(key(old))
	case old == nil, !equality.Semantic.DeepEqual(old.Spec, new.Spec), !usage.Equal(new.Spec.Hard, new.Status.Hard):
		c.Enqueue(key(new))
	case c.books.note(new, time.Now()):
		c.EnqueueAfter(key(new), c.config.InFlight)
	}
}

// objectChanged counts anew the quotas of which something became free.
func (c *ResourceQuota) objectChanged(kind int, old, new metav1.Object) {
	freed, other := c.books.change(kind, old, new, time.Now())
	for _, name := range freed {
		c.Enqueue(name)
	}
	for _, name := range other {
		c.EnqueueAfter(name, c.config.InFlight)
	}
}

func (c *ResourceQuota) reconcile(ctx context.Context, name string) (reconcile.Result, error) {
	if err := c.written.wait(ctx, name, c.config.ResourceQuotas.WaitFor); err != nil {
		return reconcile.Result{}, err
	}
	if !c.books.complete() {
		return reconcile.Result{Requeue: true}, nil
	}
	quota, ok := c.config.ResourceQuotas.Get(name)
	if !ok || quota.DeletionTimestamp != nil {
		return reconcile.Result{}, nil
	}
	page, err := c.books.read(quota, time.Now(), c.config.InFlight)
	if err != nil {
		return reconcile.Result{}, fmt.Errorf("count for quota %s: %w", name, err)
	}
	again := reconcile.Result{After: c.config.Resync}
	if page.charged {
		again.After = min(again.After, c.config.InFlight)
	}
	status := planQuota(quota, page)
	c.books.plan(name, status.Used)
	if len(page.freed) == 0 && usage.Equal(status.Hard, quota.Status.Hard) && usage.Equal(status.Used, quota.Status.Used) {
		return again, nil
	}
	// An unchanged status is written too, to know that this was the newest: on an
	// old one, what became free would be forgotten without having been taken off.
	update := quota.DeepCopy()
	update.Status = status
	stored, err := c.config.Status.UpdateStatus(ctx, update)
	switch {
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, nil
	case apierrors.IsConflict(err):
		return reconcile.Result{}, err // and nothing was written
	case err != nil:
		// Whether what became free was taken off is not known. It is as if the
		// controller had just begun.
		c.books.close(name)
		return reconcile.Result{}, fmt.Errorf("status of quota %s: %w", name, err)
	}
	c.books.settle(name, page)
	c.written.add(name, stored.ResourceVersion)
	return again, nil
}

// planQuota is the status of a quota as page has it: no less than what is
// there; and no more than was charged before less what is gone, or than what is
// there with all that may still appear.
func planQuota(quota *corev1.ResourceQuota, page quotaPage) corev1.ResourceQuotaStatus {
	status := corev1.ResourceQuotaStatus{Hard: quota.Spec.Hard.DeepCopy(), Used: corev1.ResourceList{}}
	for name := range quota.Spec.Hard {
		there, counted := page.there[name]
		charged, known := quota.Status.Used[name]
		if !counted {
			if known { // by who counted it before
				status.Used[name] = charged
			}
			continue
		}
		if !known {
			status.Used[name] = there
			continue
		}
		gone, may := page.freed[name], page.coming[name]
		used := charged.DeepCopy()
		used.Sub(gone)
		most := there.DeepCopy()
		most.Add(may)
		if used.Cmp(most) > 0 {
			used = most
		}
		if used.Cmp(there) < 0 {
			used = there
		}
		status.Used[name] = used
	}
	return status
}
