//lint:file-ignore SA1019 users still make Endpoints by hand

package controllers

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/reconcile"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// EndpointSliceMirrorConfig joins an EndpointSliceMirror controller to its
// surroundings. All fields up to Writer must be set.
type EndpointSliceMirrorConfig struct {
	Services       Cache[*corev1.Service]
	Endpoints      Cache[*corev1.Endpoints]
	EndpointSlices Cache[*discoveryv1.EndpointSlice]
	// SlicesByService is an index of EndpointSlices by [ByService].
	SlicesByService NameIndex[*discoveryv1.EndpointSlice]
	Writer          SliceWriter
	// Events may be nil.
	Events Events
	// MaxEndpoints is how many addresses of each subset are mirrored at most, up to
	// 1000. Zero is 1000, Kubernetes' default.
	MaxEndpoints int
	// Workers is how many services are worked on at a time. Zero is 5.
	Workers int
	Log     logr.Logger
}

// SliceWriter is how controllers change endpoint slices.
type SliceWriter interface {
	Creator[*discoveryv1.EndpointSlice]
	Updater[*discoveryv1.EndpointSlice]
	Deleter
}

// EndpointSliceMirror makes endpoint slices of the Endpoints that users make for
// services without a selector, for clients that know only slices. Those with the
// label endpointslice.kubernetes.io/skip-mirror set to "true" have slices already,
// and those that a leader election is written in are no addresses: they are left
// alone. A slice goes when what it mirrors does, or when the service gets a
// selector.
//
// Beside Kubernetes' it names slices itself, so that none is made twice, changes
// slices only as it has seen them, and of too many addresses always leaves out the
// same.
type EndpointSliceMirror struct {
	*loop
	config  EndpointSliceMirrorConfig
	written written

	mu sync.Mutex
	// told has, by their name, the resource version of the Endpoints of which it was
	// told last what is left out. Guarded by mu.
	told map[string]string
}

// NewEndpointSliceMirror checks config. It starts nothing.
func NewEndpointSliceMirror(config EndpointSliceMirrorConfig) (*EndpointSliceMirror, error) {
	err := required("EndpointSliceMirrorConfig", "Services", config.Services, "Endpoints", config.Endpoints,
		"EndpointSlices", config.EndpointSlices, "SlicesByService", config.SlicesByService, "Writer", config.Writer)
	if err != nil {
		return nil, err
	}
	config.MaxEndpoints = cmp.Or(config.MaxEndpoints, maxSliceEndpoints)
	if config.MaxEndpoints < 1 || config.MaxEndpoints > maxSliceEndpoints {
		return nil, fmt.Errorf("controllers: EndpointSliceMirrorConfig: MaxEndpoints %d is not within 1 and %d", config.MaxEndpoints, maxSliceEndpoints)
	}
	if config.Events == nil {
		config.Events = noEvents{}
	}
	c := &EndpointSliceMirror{config: config, told: map[string]string{}}
	// The times of Kubernetes: a change may need many writes.
	backoff := reconcile.Backoff{Min: time.Second, Max: 100 * time.Second}
	if c.loop, err = newLoop("endpointslicemirror", config.Workers, config.Log, backoff, c.reconcile); err != nil {
		return nil, err
	}
	watch(c.loop, config.Endpoints, func(old, new *corev1.Endpoints) {
		if mirrored(old) || mirrored(new) {
			c.Enqueue(key(cmp.Or(new, old)))
		}
	})
	watch(c.loop, config.Services, func(old, new *corev1.Service) {
		if endpointsByHand(old) != endpointsByHand(new) {
			c.Enqueue(key(cmp.Or(new, old)))
		}
	})
	watchSlices(c.loop, config.EndpointSlices, mirrorManager)
	return c, nil
}

// watchSlices enqueues the services of the slices that are or were manager's.
func watchSlices(l *loop, cache Cache[*discoveryv1.EndpointSlice], manager string) {
	watch(l, cache, func(old, new *discoveryv1.EndpointSlice) {
		for _, slice := range []*discoveryv1.EndpointSlice{old, new} {
			if slice != nil && slice.Labels[discoveryv1.LabelManagedBy] == manager {
				for _, service := range ByService(slice) {
					l.Enqueue(service)
				}
			}
		}
	})
}

// slicesOf are the slices of a service that are manager's.
func slicesOf(service, manager string, index NameIndex[*discoveryv1.EndpointSlice]) (list []*discoveryv1.EndpointSlice) {
	for slice := range index.Get(service) {
		if slice.Labels[discoveryv1.LabelManagedBy] == manager {
			list = append(list, slice)
		}
	}
	return list
}

func (c *EndpointSliceMirror) reconcile(ctx context.Context, name string) (reconcile.Result, error) {
	if err := c.written.wait(ctx, name, c.config.EndpointSlices.WaitFor); err != nil {
		return reconcile.Result{}, err
	}
	have := slicesOf(name, mirrorManager, c.config.SlicesByService)
	endpoints, _ := c.config.Endpoints.Get(name)
	service, _ := c.config.Services.Get(name)
	if !mirrored(endpoints) || !endpointsByHand(service) {
		c.isNews(name, "")
		return reconcile.Result{}, c.remove(ctx, name, have)
	}
	plan := planMirror(endpoints, have, c.config.MaxEndpoints)
	if c.isNews(name, endpoints.ResourceVersion) {
		c.tell(endpoints, plan)
	}
	if endpoints.DeletionTimestamp == nil {
		err := c.create(ctx, name, endpoints, plan.create)
		if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
			return reconcile.Result{}, nil
		}
		if err != nil {
			return reconcile.Result{}, err
		}
	}
	for _, slice := range plan.update {
		stored, err := c.config.Writer.Update(ctx, slice)
		switch {
		case apierrors.IsNotFound(err):
			return reconcile.Result{}, fmt.Errorf("%w: %w", errStale, err)
		case err != nil:
			return reconcile.Result{}, fmt.Errorf("failed to update %s EndpointSlice for Endpoints %s: %w", slice.Name, name, err)
		}
		c.written.add(name, stored.ResourceVersion)
	}
	return reconcile.Result{}, c.remove(ctx, name, plan.remove)
}

// isNews notes that the Endpoints are of a resource version, empty if there are
// none, and tells whether they were not so before.
func (c *EndpointSliceMirror) isNews(name, revision string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	news := c.told[name] != revision
	if revision == "" {
		delete(c.told, name)
	} else {
		c.told[name] = revision
	}
	return news
}

// tell says what is left out, with the reasons and texts of Kubernetes.
func (c *EndpointSliceMirror) tell(endpoints *corev1.Endpoints, plan mirrorPlan) {
	warn := func(reason, format string, arguments ...any) {
		c.config.Events.Event(about(endpoints, endpointsKind), corev1.EventTypeWarning, reason, fmt.Sprintf(format, arguments...))
	}
	if plan.invalid > 0 {
		warn("InvalidIPAddress", "Skipped %d invalid IP addresses when mirroring to EndpointSlices", plan.invalid)
	}
	if plan.skipped > plan.invalid {
		warn("TooManyAddressesToMirror", "A max of %d addresses can be mirrored to EndpointSlices per Endpoints subset. %d addresses were skipped",
			c.config.MaxEndpoints, plan.skipped)
	}
}

func (c *EndpointSliceMirror) create(ctx context.Context, name string, endpoints *corev1.Endpoints, create []*discoveryv1.EndpointSlice) error {
	nameSlices(endpoints.UID, create, func(slice string) bool {
		_, taken := c.config.EndpointSlices.Get(join(endpoints.Namespace, slice))
		return taken
	})
	for _, slice := range create {
		stored, err := c.config.Writer.Create(ctx, slice)
		switch {
		case apierrors.IsAlreadyExists(err): // made here, and the answer was lost
			return fmt.Errorf("%w: %w", errStale, err)
		case err != nil:
			return fmt.Errorf("failed to create EndpointSlice for Endpoints %s: %w", name, err)
		}
		c.written.add(name, stored.ResourceVersion)
	}
	return nil
}

func (c *EndpointSliceMirror) remove(ctx context.Context, name string, remove []*discoveryv1.EndpointSlice) error {
	for _, slice := range remove {
		err := c.config.Writer.Delete(ctx, slice.Namespace, slice.Name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &slice.UID}})
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("failed to delete %s EndpointSlice for Endpoints %s: %w", slice.Name, name, err)
		}
	}
	return nil
}
