//lint:file-ignore SA1019 clients still read Endpoints

package controllers

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EndpointsConfig joins an Endpoints controller to its surroundings. All fields up
// to Writer must be set.
type EndpointsConfig struct {
	Services  localcache.Cache[*corev1.Service]
	Pods      localcache.Cache[*corev1.Pod]
	Endpoints localcache.Cache[*corev1.Endpoints]
	// ServicesByNamespace and PodsByNamespace are indexes by [ByNamespace].
	ServicesByNamespace localcache.Index[string, *corev1.Service]
	PodsByNamespace     localcache.Index[string, *corev1.Pod]
	// ServiceReader reads services where they are stored.
	ServiceReader interface {
		Get(ctx context.Context, namespace, name string) (*corev1.Service, error)
	}
	Writer interface {
		Creator[*corev1.Endpoints]
		Updater[*corev1.Endpoints]
		Deleter
	}
	// Events may be nil.
	Events Events
	// BatchPeriod is how long a change of a pod waits, so that it can be seen to
	// together with those that follow. Zero is not at all, as in Kubernetes.
	BatchPeriod time.Duration
	// Workers is how many services are worked on at a time. Zero is 5.
	Workers int
	Log     logr.Logger
}

// Endpoints keeps the Endpoints of the services that select pods, for clients that
// do not know endpoint slices.
//
// Those of a service that is deleted are deleted with it, also where somebody else
// made them. Where the controller did not see the service go, it deletes only its
// own: others may have been made before their service.
type Endpoints struct {
	*loop
	config   EndpointsConfig
	written  written
	triggers triggers

	mu sync.Mutex
	// gone are the services that were seen to be deleted and whose endpoints have
	// not been looked at since. Guarded by mu.
	gone map[string]bool
}

var endpointsKind = corev1.SchemeGroupVersion.WithKind("Endpoints")

// NewEndpoints checks config. It starts nothing.
func NewEndpoints(config EndpointsConfig) (*Endpoints, error) {
	err := required("EndpointsConfig", "Services", config.Services, "Pods", config.Pods, "Endpoints", config.Endpoints,
		"ServicesByNamespace", config.ServicesByNamespace, "PodsByNamespace", config.PodsByNamespace,
		"ServiceReader", config.ServiceReader, "Writer", config.Writer)
	if err != nil {
		return nil, err
	}
	if config.BatchPeriod < 0 {
		return nil, errors.New("controllers: EndpointsConfig: negative BatchPeriod")
	}
	if config.Events == nil {
		config.Events = noEvents{}
	}
	c := &Endpoints{config: config, gone: map[string]bool{}}
	if c.loop, err = newLoop("endpoints", config.Workers, config.Log, reconcile.Backoff{}, c.reconcile); err != nil {
		return nil, err
	}
	watch(c.loop, config.Services, func(old, new *corev1.Service) {
		if new == nil {
			c.setGone(key(old), true)
		}
		enqueueObject[*corev1.Service](c.loop)(old, new)
	})
	watchPods(c.loop, config.Pods, config.ServicesByNamespace, config.BatchPeriod)
	watch(c.loop, config.Endpoints, enqueueObject[*corev1.Endpoints](c.loop))
	return c, nil
}

func (c *Endpoints) setGone(service string, gone bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if gone {
		c.gone[service] = true
	} else {
		delete(c.gone, service)
	}
}

func (c *Endpoints) isGone(service string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.gone[service]
}

func (c *Endpoints) reconcile(ctx context.Context, name string) (reconcile.Result, error) {
	if err := c.written.wait(ctx, name, c.config.Endpoints.WaitFor); err != nil {
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

// remove deletes endpoints whose service the copy does not have.
func (c *Endpoints) remove(ctx context.Context, have *corev1.Endpoints) error {
	name := key(have)
	if have.Labels[managedByLabel] != endpointsManager && !c.isGone(name) {
		return nil
	}
	_, err := c.config.ServiceReader.Get(ctx, have.Namespace, have.Name)
	if err == nil {
		return fmt.Errorf("%w: it lacks service %s", errStale, name)
	}
	if !apierrors.IsNotFound(err) {
		return fmt.Errorf("service %s: %w", name, err)
	}
	err = c.config.Writer.Delete(ctx, have.Namespace, have.Name, metav1.DeleteOptions{
		// Whoever changed them meanwhile may have a new service in mind.
		Preconditions: &metav1.Preconditions{UID: &have.UID, ResourceVersion: &have.ResourceVersion},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("delete endpoints %s: %w", name, err)
	}
	c.setGone(name, false)
	return nil
}

func (c *Endpoints) write(ctx context.Context, service *corev1.Service, want *corev1.Endpoints) error {
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
		c.written.add(key(service), stored.ResourceVersion)
		return nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil
	case apierrors.IsAlreadyExists(err), apierrors.IsNotFound(err), apierrors.IsConflict(err):
		return fmt.Errorf("%w: %w", errStale, err)
	}
	if ctx.Err() == nil {
		c.config.Events.Event(about(want, endpointsKind), corev1.EventTypeWarning, reason,
			fmt.Sprintf("Failed to %s %s: %v", verb, key(service), err))
	}
	return fmt.Errorf("%s %s: %w", verb, key(service), err)
}
