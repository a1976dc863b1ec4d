package controllers

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
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// EndpointSliceConfig joins an EndpointSlice controller to its surroundings. All
// fields up to Writer must be set.
type EndpointSliceConfig struct {
	Services       localcache.Cache[*corev1.Service]
	Pods           localcache.Cache[*corev1.Pod]
	Nodes          localcache.Cache[*corev1.Node]
	EndpointSlices localcache.Cache[*discoveryv1.EndpointSlice]
	// ServicesByNamespace and PodsByNamespace are indexes by [ByNamespace].
	ServicesByNamespace localcache.Index[string, *corev1.Service]
	PodsByNamespace     localcache.Index[string, *corev1.Pod]
	// SlicesByService is an index of EndpointSlices by [ByService].
	SlicesByService localcache.Index[string, *discoveryv1.EndpointSlice]
	Writer          SliceWriter
	// Events may be nil.
	Events Events
	// MaxEndpoints is how many endpoints a slice has at most, up to 1000. Zero is
	// 100.
	MaxEndpoints int
	// BatchPeriod is how long a change of a pod or a slice waits, so that it can be seen to
	// together with those that follow. Zero is not at all, as in Kubernetes.
	BatchPeriod time.Duration
	// Workers is how many services are worked on at a time. Zero is 5.
	Workers int
	Log     logr.Logger
}

// Of endpoints in a slice: what the API allows, and Kubernetes' default.
const (
	maxSliceEndpoints     = 1000
	defaultSliceEndpoints = 100
)

// EndpointSlice keeps the endpoint slices of the services that select pods.
//
// Beside Kubernetes' it names slices itself, so that none is made twice, follows
// nodes that move to another zone, and gives hints for traffic distribution but
// none that are reckoned from the sizes of zones (service.kubernetes.io/topology-mode).
type EndpointSlice struct {
	*loop
	config   EndpointSliceConfig
	slices   sliceControl
	triggers triggers
}

// NewEndpointSlice checks config. It starts nothing.
func NewEndpointSlice(config EndpointSliceConfig) (*EndpointSlice, error) {
	err := required("EndpointSliceConfig", "Services", config.Services, "Pods", config.Pods, "Nodes", config.Nodes,
		"EndpointSlices", config.EndpointSlices, "ServicesByNamespace", config.ServicesByNamespace,
		"PodsByNamespace", config.PodsByNamespace, "SlicesByService", config.SlicesByService, "Writer", config.Writer)
	if err != nil {
		return nil, err
	}
	config.MaxEndpoints = cmp.Or(config.MaxEndpoints, defaultSliceEndpoints)
	if config.MaxEndpoints < 1 || config.MaxEndpoints > maxSliceEndpoints {
		return nil, fmt.Errorf("controllers: EndpointSliceConfig: MaxEndpoints %d is not within 1 and %d", config.MaxEndpoints, maxSliceEndpoints)
	}
	if config.BatchPeriod < 0 {
		return nil, errors.New("controllers: EndpointSliceConfig: negative BatchPeriod")
	}
	if config.Events == nil {
		config.Events = noEvents{}
	}
	c := &EndpointSlice{config: config, slices: sliceControl{
		slices: config.EndpointSlices, byService: config.SlicesByService, writer: config.Writer,
		manager: slicesManager, kind: serviceKind.Kind,
	}}
	// A service may need many writes, so failures wait longer than elsewhere.
	if c.loop, err = newLoop("endpointslice", config.Workers, config.Log, reconcile.Backoff{Min: time.Second}, c.reconcile); err != nil {
		return nil, err
	}
	watch(c.loop, config.Services, enqueueObject[*corev1.Service](c.loop))
	watchPods(c.loop, config.Pods, config.ServicesByNamespace, config.BatchPeriod)
	watch(c.loop, config.Nodes, c.nodeChanged)
	c.slices.watch(c.loop, config.BatchPeriod)
	return c, nil
}

// nodeChanged enqueues the services of the pods on a node that is in another zone
// now. A node that was not known is asked for again by those who missed it.
func (c *EndpointSlice) nodeChanged(old, new *corev1.Node) {
	if old == nil || new == nil || old.Labels[corev1.LabelTopologyZone] == new.Labels[corev1.LabelTopologyZone] {
		return
	}
	for pod := range c.config.Pods.All() {
		if pod.Spec.NodeName != new.Name {
			continue
		}
		for service := range c.config.ServicesByNamespace.Get(pod.Namespace) {
			if selectsPod(service, pod) {
				c.Enqueue(key(service))
			}
		}
	}
}

func (c *EndpointSlice) zone(node string) (string, bool) {
	n, ok := c.config.Nodes.Get(node)
	if !ok {
		return "", false
	}
	return n.Labels[corev1.LabelTopologyZone], true
}

func (c *EndpointSlice) reconcile(ctx context.Context, name string) (reconcile.Result, error) {
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
	if err := c.act(ctx, service, plan, at); err != nil {
		if !isStale(err) && ctx.Err() == nil {
			c.config.Events.Event(about(service, serviceKind), corev1.EventTypeWarning, "FailedToUpdateEndpointSlices",
				fmt.Sprintf("Error updating Endpoint Slices for Service %s: %v", name, err))
		}
		return reconcile.Result{}, err
	}
	c.triggers.set(name, trigger)
	return reconcile.Result{}, nil
}

// act carries out plan. at is when what it is about came to be.
func (c *EndpointSlice) act(ctx context.Context, service *corev1.Service, plan slicePlan, at time.Time) error {
	for _, slice := range slices.Concat(plan.create, plan.update) {
		slice.Annotations = annotateTrigger(slice.Annotations, at)
	}
	if err := c.slices.carryOut(ctx, service, plan.sliceWrites); err != nil {
		return err
	}
	var lost []error
	for _, pod := range plan.lost {
		lost = append(lost, fmt.Errorf("skipping Pod %s for Service %s: Node %s Not Found", pod.Name, key(service), pod.Spec.NodeName))
	}
	return utilerrors.NewAggregate(lost) // which the event shows as Kubernetes does
}
