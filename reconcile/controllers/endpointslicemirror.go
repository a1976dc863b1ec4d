//lint:file-ignore SA1019 users still make Endpoints by hand

package controllers

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
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// EndpointSliceMirrorConfig joins an EndpointSliceMirror controller to its
// surroundings. All fields up to Writer must be set.
type EndpointSliceMirrorConfig struct {
	Services       localcache.Cache[*corev1.Service]
	Endpoints      localcache.Cache[*corev1.Endpoints]
	EndpointSlices localcache.Cache[*discoveryv1.EndpointSlice]
	// SlicesByService is an index of EndpointSlices by [ByService].
	SlicesByService localcache.Index[string, *discoveryv1.EndpointSlice]
	Writer          SliceWriter
	// Events may be nil.
	Events Events
	// MaxEndpoints is how many addresses of each subset are mirrored at most, up to
	// 1000. Zero is 1000, Kubernetes' default.
	MaxEndpoints int
	// BatchPeriod is how long a change of a slice waits, so that it can be seen to
	// together with those that follow. Zero is not at all, as in Kubernetes.
	BatchPeriod time.Duration
	// Workers is how many services are worked on at a time. Zero is 5.
	Workers int
	Log     logr.Logger
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
	config EndpointSliceMirrorConfig
	slices sliceControl

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
	if config.BatchPeriod < 0 {
		return nil, errors.New("controllers: EndpointSliceMirrorConfig: negative BatchPeriod")
	}
	if config.Events == nil {
		config.Events = noEvents{}
	}
	c := &EndpointSliceMirror{config: config, told: map[string]string{}, slices: sliceControl{
		slices: config.EndpointSlices, byService: config.SlicesByService, writer: config.Writer,
		manager: mirrorManager, kind: endpointsKind.Kind,
	}}
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
	c.slices.watch(c.loop, config.BatchPeriod)
	return c, nil
}

func (c *EndpointSliceMirror) reconcile(ctx context.Context, name string) (reconcile.Result, error) {
	if err := c.slices.wait(ctx, name); err != nil {
		return reconcile.Result{}, err
	}
	have := c.slices.of(name)
	endpoints, _ := c.config.Endpoints.Get(name)
	service, _ := c.config.Services.Get(name)
	if !mirrored(endpoints) || !endpointsByHand(service) {
		c.isNews(name, "")
		return reconcile.Result{}, c.slices.remove(ctx, name, have)
	}
	plan := planMirror(endpoints, have, c.config.MaxEndpoints)
	if c.isNews(name, endpoints.ResourceVersion) {
		c.tell(endpoints, plan)
	}
	return reconcile.Result{}, c.slices.carryOut(ctx, endpoints, plan.sliceWrites)
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
