//lint:file-ignore SA1019 users still make Endpoints by hand

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
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
)

// MirrorConfig configures a Mirror. All fields before Events are required.
type MirrorConfig struct {
	Services       localcache.Cache[*corev1.Service]
	Endpoints      localcache.Cache[*corev1.Endpoints]
	EndpointSlices localcache.Cache[*discoveryv1.EndpointSlice]
	// SlicesByService is an index of EndpointSlices by [ByService].
	SlicesByService localcache.Index[string, *discoveryv1.EndpointSlice]
	Writer          SliceWriter
	// Events records Event objects. Nil discards them.
	Events controllers.Events
	// MaxEndpoints is the maximum number of mirrored addresses of each subset, up to 1000. Zero
	// means 1000, as in Kubernetes.
	MaxEndpoints int
	// BatchPeriod is how long a change of a slice waits for later changes. Zero means that it does
	// not wait, as in Kubernetes.
	BatchPeriod time.Duration
	// Workers is the number of services processed concurrently. Zero means 5.
	Workers int
	// Metrics receives the measurements of the queue and the workers. Nil means none.
	Metrics controllers.Metrics
	// Log receives failures. The zero Logger discards them.
	Log logr.Logger
}

// Mirror writes EndpointSlices for the Endpoints that users create for services without a selector,
// for clients that know only slices. It ignores Endpoints with the label
// endpointslice.kubernetes.io/skip-mirror set to "true", and those that hold a leader election. It
// deletes a slice when its Endpoints are deleted, or when the service gets a selector.
//
// Unlike Kubernetes, it names slices itself, so that none is created twice, changes slices only as
// it has seen them, and always leaves out the same addresses if there are too many.
type Mirror struct {
	*reconcile.Controller[string]
	config MirrorConfig
	slices sliceControl

	mu sync.Mutex
	// reported holds, by name, the resource version of the Endpoints that the last events about
	// left-out addresses were about. Guarded by mu.
	reported map[string]string
}

// NewMirror returns a controller, or an error if config lacks a required field. It starts nothing.
func NewMirror(config MirrorConfig) (*Mirror, error) {
	err := loop.Required("endpoints: MirrorConfig", "Services", config.Services, "Endpoints", config.Endpoints,
		"EndpointSlices", config.EndpointSlices, "SlicesByService", config.SlicesByService, "Writer", config.Writer)
	if err != nil {
		return nil, err
	}
	config.MaxEndpoints = cmp.Or(config.MaxEndpoints, maxSliceEndpoints)
	if config.MaxEndpoints < 1 || config.MaxEndpoints > maxSliceEndpoints {
		return nil, fmt.Errorf("endpoints: MirrorConfig: MaxEndpoints %d is not within 1 and %d", config.MaxEndpoints, maxSliceEndpoints)
	}
	if config.BatchPeriod < 0 {
		return nil, errors.New("endpoints: MirrorConfig: negative BatchPeriod")
	}
	if config.Events == nil {
		config.Events = controllers.NoEvents{}
	}
	c := &Mirror{config: config, reported: map[string]string{}, slices: sliceControl{
		slices: config.EndpointSlices, byService: config.SlicesByService, writer: config.Writer,
		manager: mirrorManager, kind: endpointsKind.Kind,
	}}
	// The times of Kubernetes: a change may need many writes.
	backoff := reconcile.Backoff{Min: time.Second, Max: 100 * time.Second}
	if c.Controller, err = loop.New(loop.Config{Name: "endpointslicemirror", Workers: config.Workers, Log: config.Log, Metrics: config.Metrics, Backoff: backoff}, c.reconcile); err != nil {
		return nil, err
	}
	reconcile.WatchFunc(c.Controller, config.Endpoints, func(old, new *corev1.Endpoints) {
		if mirrored(old) || mirrored(new) {
			c.Enqueue(localcache.KeyOf(cmp.Or(new, old)))
		}
	})
	reconcile.WatchFunc(c.Controller, config.Services, func(old, new *corev1.Service) {
		if endpointsByHand(old) != endpointsByHand(new) {
			c.Enqueue(localcache.KeyOf(cmp.Or(new, old)))
		}
	})
	c.slices.watch(c.Controller, config.BatchPeriod)
	return c, nil
}

func (c *Mirror) reconcile(ctx context.Context, name string) (reconcile.Result, error) {
	if err := c.slices.wait(ctx, name); err != nil {
		return reconcile.Result{}, err
	}
	have := c.slices.of(name)
	endpoints, _ := c.config.Endpoints.Get(name)
	service, _ := c.config.Services.Get(name)
	if !mirrored(endpoints) || !endpointsByHand(service) {
		c.setReported(name, "")
		return reconcile.Result{}, c.slices.remove(ctx, name, have)
	}
	plan := planMirror(endpoints, have, c.config.MaxEndpoints)
	if c.setReported(name, endpoints.ResourceVersion) {
		c.report(endpoints, plan)
	}
	return reconcile.Result{}, c.slices.carryOut(ctx, endpoints, plan.sliceWrites)
}

// setReported records the resource version of the Endpoints, empty if there are none, and reports
// whether it has changed.
func (c *Mirror) setReported(name, revision string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	changed := c.reported[name] != revision
	if revision == "" {
		delete(c.reported, name)
	} else {
		c.reported[name] = revision
	}
	return changed
}

// report records what is left out, with the reasons and messages of Kubernetes.
func (c *Mirror) report(endpoints *corev1.Endpoints, plan mirrorPlan) {
	warn := func(reason, format string, arguments ...any) {
		c.config.Events.Event(loop.Reference(endpoints, endpointsKind), corev1.EventTypeWarning, reason, fmt.Sprintf(format, arguments...))
	}
	if plan.invalid > 0 {
		warn("InvalidIPAddress", "Skipped %d invalid IP addresses when mirroring to EndpointSlices", plan.invalid)
	}
	if plan.skipped > plan.invalid {
		warn("TooManyAddressesToMirror", "A max of %d addresses can be mirrored to EndpointSlices per Endpoints subset. %d addresses were skipped",
			c.config.MaxEndpoints, plan.skipped)
	}
}
