package endpoints

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/internal/loop"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// SliceConfig configures a SliceController. All fields before Events are required.
type SliceConfig struct {
	Services       localcache.Cache[*corev1.Service]
	Pods           localcache.Cache[*corev1.Pod]
	Nodes          localcache.Cache[*corev1.Node]
	EndpointSlices localcache.Cache[*discoveryv1.EndpointSlice]
	// ServicesByNamespace and PodsByNamespace are indexes by [controllers.ByNamespace].
	ServicesByNamespace localcache.Index[string, *corev1.Service]
	PodsByNamespace     localcache.Index[string, *corev1.Pod]
	// SlicesByService is an index of EndpointSlices by [ByService].
	SlicesByService localcache.Index[string, *discoveryv1.EndpointSlice]
	Writer          SliceWriter
	// Events records Event objects. Nil discards them.
	Events controllers.Events
	// MaxEndpoints is the maximum number of endpoints of a slice, up to 1000. Zero means 100.
	MaxEndpoints int
	// BatchPeriod is how long a change of a pod or a slice waits for later changes. Zero means that
	// it does not wait, as in Kubernetes.
	BatchPeriod time.Duration
	// Workers is the number of services processed concurrently. Zero means 5.
	Workers int
	// Metrics receives the measurements of the queue and the workers. Nil means none.
	Metrics controllers.Metrics
	// Log receives failures. The zero Logger discards them.
	Log logr.Logger
}

// Of endpoints in a slice: what the API allows, and Kubernetes' default.
const (
	maxSliceEndpoints     = 1000
	defaultSliceEndpoints = 100
)

// SliceController writes the EndpointSlices of the services that select pods.
//
// Unlike Kubernetes, it names slices itself, so that none is created twice, and follows nodes that
// move to another zone. It gives hints for traffic distribution, but none computed from the sizes
// of zones (service.kubernetes.io/topology-mode).
type SliceController struct {
	*reconcile.Controller[string]
	config   SliceConfig
	slices   sliceControl
	triggers triggers
}

// NewSlices returns a controller, or an error if config lacks a required field. It starts nothing.
func NewSlices(config SliceConfig) (*SliceController, error) {
	err := loop.Required("endpoints: SliceConfig", "Services", config.Services, "Pods", config.Pods, "Nodes", config.Nodes,
		"EndpointSlices", config.EndpointSlices, "ServicesByNamespace", config.ServicesByNamespace,
		"PodsByNamespace", config.PodsByNamespace, "SlicesByService", config.SlicesByService, "Writer", config.Writer)
	if err != nil {
		return nil, err
	}
	config.MaxEndpoints = cmp.Or(config.MaxEndpoints, defaultSliceEndpoints)
	if config.MaxEndpoints < 1 || config.MaxEndpoints > maxSliceEndpoints {
		return nil, fmt.Errorf("endpoints: SliceConfig: MaxEndpoints %d is not within 1 and %d", config.MaxEndpoints, maxSliceEndpoints)
	}
	if config.BatchPeriod < 0 {
		return nil, errors.New("endpoints: SliceConfig: negative BatchPeriod")
	}
	if config.Events == nil {
		config.Events = controllers.NoEvents{}
	}
	c := &SliceController{config: config, slices: sliceControl{
		slices: config.EndpointSlices, byService: config.SlicesByService, writer: config.Writer,
		manager: slicesManager, kind: serviceKind.Kind,
	}}
	// A service may need many writes, so failures wait longer than elsewhere.
	if c.Controller, err = loop.New(loop.Config{Name: "endpointslice", Workers: config.Workers, Log: config.Log, Metrics: config.Metrics, Backoff: reconcile.Backoff{Min: time.Second}}, c.reconcile); err != nil {
		return nil, err
	}
	reconcile.Watch(c.Controller, config.Services, reconcile.Itself(localcache.KeyOf[*corev1.Service]))
	watchPods(c.Controller, config.Pods, config.ServicesByNamespace, config.BatchPeriod)
	reconcile.WatchFunc(c.Controller, config.Nodes, c.nodeChanged)
	c.slices.watch(c.Controller, config.BatchPeriod)
	return c, nil
}

// nodeChanged enqueues the services of the pods on a node that has moved to another zone. Services
// that missed an unknown node look for it again themselves.
func (c *SliceController) nodeChanged(old, new *corev1.Node) {
	if old == nil || new == nil || old.Labels[corev1.LabelTopologyZone] == new.Labels[corev1.LabelTopologyZone] {
		return
	}
	for pod := range c.config.Pods.All() {
		if pod.Spec.NodeName != new.Name {
			continue
		}
		for service := range c.config.ServicesByNamespace.Get(pod.Namespace) {
			if selectsPod(service, pod) {
				c.Enqueue(localcache.KeyOf(service))
			}
		}
	}
}

func (c *SliceController) zone(node string) (string, bool) {
	n, ok := c.config.Nodes.Get(node)
	if !ok {
		return "", false
	}
	return n.Labels[corev1.LabelTopologyZone], true
}

func (c *SliceController) reconcile(ctx context.Context, name string) (reconcile.Result, error) {
	if err := c.slices.wait(ctx, name); err != nil {
		return reconcile.Result{}, err
	}
	service, ok := c.config.Services.Get(name)
	if !ok {
		c.triggers.drop(name)
		return reconcile.Result{}, nil // its slices are collected
	}
	if !hasSelector(service) {
		return reconcile.Result{}, nil
	}
	pods := selected(service, c.config.PodsByNamespace.Get(service.Namespace))
	plan := planEndpointSlices(slicePlanner{service: service, zone: c.zone, max: c.config.MaxEndpoints}, pods, c.slices.of(name))
	trigger, at := c.triggers.next(service, pods)
	if plan.crowded > 0 {
		c.config.Events.Event(loop.Reference(service, serviceKind), corev1.EventTypeWarning, "TooManyPorts",
			fmt.Sprintf("%d endpoints are left out: the pods have more than %d different ports in all", plan.crowded, maxTargets))
	}
	if err := c.act(ctx, service, plan, at); err != nil {
		if !loop.IsStale(err) && ctx.Err() == nil {
			c.config.Events.Event(loop.Reference(service, serviceKind), corev1.EventTypeWarning, "FailedToUpdateEndpointSlices",
				fmt.Sprintf("Error updating Endpoint Slices for Service %s: %v", name, err))
		}
		return reconcile.Result{}, err
	}
	c.triggers.set(name, trigger)
	return reconcile.Result{}, nil
}

// act carries out plan. at is the time of the change that the plan is about.
func (c *SliceController) act(ctx context.Context, service *corev1.Service, plan slicePlan, at time.Time) error {
	for _, slice := range slices.Concat(plan.create, plan.update) {
		slice.Annotations = annotateTrigger(slice.Annotations, at)
	}
	if err := c.slices.carryOut(ctx, service, plan.sliceWrites); err != nil {
		return err
	}
	var lost []error
	for _, pod := range plan.lost {
		lost = append(lost, fmt.Errorf("skipping Pod %s for Service %s: Node %s Not Found", pod.Name, localcache.KeyOf(service), pod.Spec.NodeName))
	}
	return utilerrors.NewAggregate(lost) // which the event shows as Kubernetes does
}
