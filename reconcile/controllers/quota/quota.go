package quota

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/internal/usage"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/internal/loop"
	"github.com/planekit/planekit/reconcile/controllers/owner"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Kind is one resource that quotas may count. [NewKind] makes it.
type Kind struct {
	Resource schema.GroupResource
	// Changes reports the changes of the cache. Absent objects are nil.
	Changes localcache.Subscriber[metav1.Object]
}

// NewKind returns the Kind of a cache of all objects of resource. A cache of their metadata is
// enough for resources that are only counted.
func NewKind[T metav1.Object](resource schema.GroupResource, cache localcache.Cache[T]) Kind {
	return Kind{Resource: resource, Changes: loop.Objects[T]{Cache: cache}}
}

// Custom are resources that come and go while a controller runs.
type Custom interface {
	// Subscriber reports the changes of the objects of all the resources. Absent objects are nil.
	localcache.Subscriber[metav1.Object]
	// ResourceOf returns the resource of an object that has been reported.
	ResourceOf(object metav1.Object) schema.GroupResource
	// Resources reports, and finds, the names of resources whose objects have all been reported, such
	// as widgets.example.com. An absent name is empty.
	Resources() Resources
}

// Resources are the names of resources.
type Resources interface {
	localcache.Getter[string]
	localcache.Subscriber[string]
}

// Config configures a Controller. ResourceQuotas, Kinds and Writer are required.
type Config struct {
	ResourceQuotas localcache.Cache[*corev1.ResourceQuota]
	// Kinds are the resources that quotas may count. If a quota names another one, its use stays
	// unknown, and admission refuses to create it.
	Kinds []Kind
	// Custom has further resources, which come and go. Nil means none.
	Custom Custom
	Writer controllers.StatusUpdater[*corev1.ResourceQuota]
	// InFlight is the longest time from the admission of an object until the cache shows it. Zero
	// means a minute, the time that an API server gives a request.
	InFlight time.Duration
	// Resync is how often every quota is counted again without a change. Zero means five minutes,
	// as in Kubernetes.
	Resync time.Duration
	// Workers is the number of quotas processed concurrently. Zero means 5.
	Workers int
	// Metrics receives the measurements of the queue and the workers. Nil means none.
	Metrics controllers.Metrics
	// Log receives failures. The zero Logger discards them.
	Log logr.Logger
}

// Controller writes the usage of every quota into its status.
//
// Admission has charged every object before it was stored. An object that a cache lacks may be
// about to appear, and counting it as free would admit more than the quota allows. The controller
// therefore releases what it has seen deleted at once, and what was charged and never appeared
// after InFlight. It adds what exists and was not charged when it sees it.
type Controller struct {
	*reconcile.Controller[string]
	config Config
	books  *quotaBooks
	ledger owner.Ledger
}

// New returns a controller, or an error if config is invalid. It starts nothing.
func New(config Config) (*Controller, error) {
	err := loop.Required("quota: Config", "ResourceQuotas", config.ResourceQuotas, "Writer", config.Writer)
	if err != nil {
		return nil, err
	}
	if len(config.Kinds) == 0 {
		return nil, errors.New("quota: Config: no Kinds")
	}
	if config.InFlight < 0 || config.Resync < 0 {
		return nil, errors.New("quota: Config: negative InFlight or Resync")
	}
	if config.InFlight == 0 {
		config.InFlight = time.Minute
	}
	if config.Resync == 0 {
		config.Resync = 5 * time.Minute
	}
	c := &Controller{config: config, books: newQuotaBooks(config.Kinds, config.Custom)}
	if c.Controller, err = loop.New(loop.Config{Name: "resourcequota", Workers: config.Workers, Log: config.Log, Metrics: config.Metrics}, c.reconcile); err != nil {
		return nil, err
	}
	reconcile.WatchFunc(c.Controller, config.ResourceQuotas, c.quotaChanged)
	for i, kind := range config.Kinds {
		if kind.Resource.Resource == "" || kind.Changes == nil {
			return nil, fmt.Errorf("quota: Config: kind %d (%s) is incomplete", i, kind.Resource)
		}
		reconcile.WatchFunc(c.Controller, kind.Changes, func(old, new metav1.Object) { c.objectChanged(i, old, new) })
	}
	if config.Custom != nil {
		reconcile.WatchFunc(c.Controller, config.Custom, func(old, new metav1.Object) { c.objectChanged(customKind, old, new) })
		reconcile.WatchFunc(c.Controller, config.Custom.Resources(), c.resourceChanged)
	}
	return c, nil
}

// quotaChanged enqueues a quota whose spec has changed. It records a charge alone, and enqueues the
// quota for when the charged object must have appeared.
func (c *Controller) quotaChanged(old, new *corev1.ResourceQuota) {
	switch {
	case new == nil:
		c.books.close(localcache.KeyOf(old))
	case old == nil, !equality.Semantic.DeepEqual(old.Spec, new.Spec), !usage.Equal(new.Spec.Hard, new.Status.Hard):
		c.Enqueue(localcache.KeyOf(new))
	case c.books.note(new, time.Now()):
		c.EnqueueAfter(localcache.KeyOf(new), c.config.InFlight)
	}
}

// resourceChanged enqueues the quotas that count a resource that is new.
func (c *Controller) resourceChanged(_, name string) {
	if name == "" {
		return
	}
	for q := range c.config.ResourceQuotas.All() {
		if _, ok := q.Spec.Hard[countPrefix+corev1.ResourceName(name)]; ok {
			c.Enqueue(localcache.KeyOf(q))
		}
	}
}

// objectChanged enqueues the quotas of which something became free.
func (c *Controller) objectChanged(kind int, old, new metav1.Object) {
	freed, other := c.books.change(kind, old, new, time.Now())
	for _, name := range freed {
		c.Enqueue(name)
	}
	for _, name := range other {
		c.EnqueueAfter(name, c.config.InFlight)
	}
}

func (c *Controller) reconcile(ctx context.Context, name string) (reconcile.Result, error) {
	if err := c.ledger.Wait(ctx, name); err != nil {
		return reconcile.Result{}, err
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
	// Write an unchanged status, too: it proves that the cached quota was the newest. On an older
	// one, what became free would be forgotten without having been released.
	update := quota.DeepCopy()
	update.Status = status
	stored, err := c.config.Writer.UpdateStatus(ctx, update)
	switch {
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, nil
	case apierrors.IsConflict(err):
		return reconcile.Result{}, err // and nothing was written
	case err != nil:
		// Whether the release was stored is unknown. Start again as after a restart.
		c.books.close(name)
		return reconcile.Result{}, fmt.Errorf("status of quota %s: %w", name, err)
	}
	c.books.settle(name, page)
	c.ledger.Add(name, c.config.ResourceQuotas, stored.ResourceVersion)
	return again, nil
}

// planQuota returns the status of a quota. Its usage is at least that of the existing objects; and
// at most what was charged less what was freed, or the existing objects with all that may still
// appear.
func planQuota(quota *corev1.ResourceQuota, page quotaPage) corev1.ResourceQuotaStatus {
	status := corev1.ResourceQuotaStatus{Hard: quota.Spec.Hard.DeepCopy(), Used: corev1.ResourceList{}}
	for name := range quota.Spec.Hard {
		there, counted := page.there[name]
		charged, known := quota.Status.Used[name]
		if !counted {
			if known { // by the process that counted it before
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
