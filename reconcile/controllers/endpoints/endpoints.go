//lint:file-ignore SA1019 clients still read Endpoints

package endpoints

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/internal/loop"
	"github.com/planekit/planekit/reconcile/controllers/owner"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Config configures a Controller. All fields before Events are required.
type Config struct {
	Services  localcache.Cache[*corev1.Service]
	Pods      localcache.Cache[*corev1.Pod]
	Endpoints localcache.Cache[*corev1.Endpoints]
	// ServicesByNamespace and PodsByNamespace are indexes by [controllers.ByNamespace].
	ServicesByNamespace localcache.Index[string, *corev1.Service]
	PodsByNamespace     localcache.Index[string, *corev1.Pod]
	// ServiceReader reads services where they are stored.
	ServiceReader interface {
		Get(ctx context.Context, namespace, name string) (*corev1.Service, error)
	}
	Writer interface {
		controllers.Creator[*corev1.Endpoints]
		controllers.Updater[*corev1.Endpoints]
		controllers.Deleter
	}
	// Events records Event objects. Nil discards them.
	Events controllers.Events
	// BatchPeriod is how long a change of a pod waits for later changes. Zero means that it does
	// not wait, as in Kubernetes.
	BatchPeriod time.Duration
	// Workers is the number of services processed concurrently. Zero means 5.
	Workers int
	// Metrics receives the measurements of the queue and the workers. Nil means none.
	Metrics controllers.Metrics
	// Log receives failures. The zero Logger discards them.
	Log logr.Logger
}

// Controller writes the Endpoints of the services that select pods, for clients that do not know
// EndpointSlices.
//
// It deletes the Endpoints of a deleted service, also those that another client created. If it did
// not see the service deleted, it deletes only its own: the other ones may have been created before
// their service.
type Controller struct {
	*reconcile.Controller[string]
	config   Config
	ledger   owner.Ledger
	triggers triggers

	mu sync.Mutex
	// gone holds the services that were seen to be deleted and whose Endpoints have not been
	// processed since. Guarded by mu.
	gone map[string]bool
}

var endpointsKind = corev1.SchemeGroupVersion.WithKind("Endpoints")

// New returns a controller, or an error if config lacks a required field. It starts nothing.
func New(config Config) (*Controller, error) {
	err := loop.Required("endpoints: Config", "Services", config.Services, "Pods", config.Pods, "Endpoints", config.Endpoints,
		"ServicesByNamespace", config.ServicesByNamespace, "PodsByNamespace", config.PodsByNamespace,
		"ServiceReader", config.ServiceReader, "Writer", config.Writer)
	if err != nil {
		return nil, err
	}
	if config.BatchPeriod < 0 {
		return nil, errors.New("endpoints: Config: negative BatchPeriod")
	}
	if config.Events == nil {
		config.Events = controllers.NoEvents{}
	}
	c := &Controller{config: config, gone: map[string]bool{}}
	if c.Controller, err = loop.New(loop.Config{Name: "endpoints", Workers: config.Workers, Log: config.Log, Metrics: config.Metrics}, c.reconcile); err != nil {
		return nil, err
	}
	reconcile.WatchFunc(c.Controller, config.Services, func(old, new *corev1.Service) {
		if new == nil {
			c.setGone(localcache.KeyOf(old), true)
		}
		c.Enqueue(localcache.KeyOf(cmp.Or(new, old)))
	})
	watchPods(c.Controller, config.Pods, config.ServicesByNamespace, config.BatchPeriod)
	reconcile.Watch(c.Controller, config.Endpoints, reconcile.Itself(localcache.KeyOf[*corev1.Endpoints]))
	return c, nil
}

func (c *Controller) setGone(service string, gone bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if gone {
		c.gone[service] = true
	} else {
		delete(c.gone, service)
	}
}

func (c *Controller) isGone(service string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone[service]
}

func (c *Controller) reconcile(ctx context.Context, name string) (reconcile.Result, error) {
	if err := c.ledger.Wait(ctx, name); err != nil {
		return reconcile.Result{}, err
	}
	have, exist := c.config.Endpoints.Get(name)
	service, ok := c.config.Services.Get(name)
	if !ok {
		c.triggers.drop(name)
		if !exist {
			c.setGone(name, false)
			return reconcile.Result{}, nil
		}
		return reconcile.Result{}, c.remove(ctx, have)
	}
	c.setGone(name, false)
	if !hasSelector(service) {
		return reconcile.Result{}, nil
	}
	pods := selected(service, c.config.PodsByNamespace.Get(service.Namespace))
	trigger, at := c.triggers.next(service, pods)
	if want := planEndpoints(service, pods, have); want != nil {
		want.Annotations = annotateTrigger(want.Annotations, at)
		if err := c.write(ctx, service, want); err != nil {
			return reconcile.Result{}, err
		}
	}
	c.triggers.set(name, trigger)
	return reconcile.Result{}, nil
}

// remove deletes the endpoints of a service that is not in the cache.
func (c *Controller) remove(ctx context.Context, have *corev1.Endpoints) error {
	name := localcache.KeyOf(have)
	if have.Labels[managedByLabel] != endpointsManager && !c.isGone(name) {
		return nil
	}
	_, err := c.config.ServiceReader.Get(ctx, have.Namespace, have.Name)
	if err == nil {
		return fmt.Errorf("%w: it lacks service %s", loop.ErrStale, name)
	}
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("service %s: %w", name, err)
	}
	err = c.config.Writer.Delete(ctx, have.Namespace, have.Name, metav1.DeleteOptions{
		// A client that changed them meanwhile may be about to create a new service.
		Preconditions: &metav1.Preconditions{UID: &have.UID, ResourceVersion: &have.ResourceVersion},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete endpoints %s: %w", name, err)
	}
	c.setGone(name, false)
	return nil
}

func (c *Controller) write(ctx context.Context, service *corev1.Service, want *corev1.Endpoints) error {
	write, reason, verb := c.config.Writer.Update, "FailedToUpdateEndpoint", "update endpoint"
	if want.ResourceVersion == "" {
		if service.DeletionTimestamp != nil {
			return nil
		}
		write, reason, verb = c.config.Writer.Create, "FailedToCreateEndpoint", "create endpoint for service"
	}
	stored, err := write(ctx, want)
	switch {
	case err == nil:
		c.ledger.Add(localcache.KeyOf(service), c.config.Endpoints, stored.ResourceVersion)
		return nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil
	case apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return fmt.Errorf("%w: %w", loop.ErrStale, err)
	}
	if ctx.Err() == nil {
		c.config.Events.Event(loop.Reference(want, endpointsKind), corev1.EventTypeWarning, reason,
			fmt.Sprintf("Failed to %s %s: %v", verb, localcache.KeyOf(service), err))
	}
	return fmt.Errorf("%s %s: %w", verb, localcache.KeyOf(service), err)
}
