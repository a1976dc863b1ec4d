package autoscale

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/internal/selector"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/internal/loop"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Scaler reads and writes the scale subresource of objects of any kind. Its errors are worded for users.
type Scaler interface {
	// Scale returns the scale of an object. Its version may be another that the server has of the kind.
	Scale(ctx context.Context, namespace string, target autoscalingv2.CrossVersionObjectReference) (*autoscalingv1.Scale, error)
	// SetScale writes what Scale has returned, with another number of replicas. It fails with a conflict
	// if the object has changed since.
	SetScale(ctx context.Context, target autoscalingv2.CrossVersionObjectReference, scale *autoscalingv1.Scale) error
}

// Source reads metrics. Values are in thousandths. Its errors are worded for users.
type Source interface {
	// Resource returns the usage of pods, by name; only of a container if that is not empty.
	Resource(ctx context.Context, namespace string, pods labels.Selector, name corev1.ResourceName, container string) (map[string]Sample, error)
	// Pods returns a metric of pods, by name.
	Pods(ctx context.Context, namespace string, pods labels.Selector, metric Metric) (map[string]Sample, error)
	// Object returns a metric of an object.
	Object(ctx context.Context, namespace string, object autoscalingv2.CrossVersionObjectReference, metric Metric) (int64, error)
	// External returns the values of a metric that is of no object.
	External(ctx context.Context, namespace string, metric Metric) ([]int64, error)
}

// A Metric is the name of a metric with a selector of its series.
type Metric struct {
	Name     string
	Selector labels.Selector
}

// Tuning configures the times and the tolerance. Zero fields are the defaults of kube-controller-manager.
type Tuning struct {
	// Period is the time between two looks at an autoscaler. Zero means 15 s.
	Period time.Duration
	// Stabilization is how long a scale down waits for higher recommendations, where the autoscaler does not say.
	// Zero means five minutes.
	Stabilization time.Duration
	// Tolerance is by what part of the target the usage may differ from it, where the autoscaler does not
	// say. Zero means 0.1.
	Tolerance float64
	// Initialization and ReadinessDelay are those of [Calculation]. Zero means five minutes and 30 s.
	Initialization, ReadinessDelay time.Duration
}

func (t *Tuning) complete() {
	for _, field := range []struct {
		of       *time.Duration
		standard time.Duration
	}{
		{&t.Period, 15 * time.Second}, {&t.Stabilization, 5 * time.Minute},
		{&t.Initialization, 5 * time.Minute}, {&t.ReadinessDelay, 30 * time.Second},
	} {
		if *field.of == 0 {
			*field.of = field.standard
		}
	}
	if t.Tolerance == 0 {
		t.Tolerance = 0.1
	}
}

// Config configures a Controller. All fields before Tuning are required.
type Config struct {
	Autoscalers localcache.Cache[*autoscalingv2.HorizontalPodAutoscaler]
	Pods        localcache.Cache[*corev1.Pod]
	// PodsByNamespace is an index of Pods by [controllers.ByNamespace].
	PodsByNamespace localcache.Index[string, *corev1.Pod]
	// Writer writes the status of autoscalers.
	Writer controllers.StatusUpdater[*autoscalingv2.HorizontalPodAutoscaler]
	Scales Scaler
	Source Source
	Tuning Tuning
	// Events records Event objects. Nil discards them.
	Events controllers.Events
	// Workers is the number of autoscalers processed concurrently. Zero means 5.
	Workers int
	// Metrics receives the measurements of the queue and the workers. Nil means none.
	Metrics controllers.Metrics
	// Log receives failures. The zero Logger discards them.
	Log logr.Logger
}

// Controller sets the number of replicas of the targets of HorizontalPodAutoscalers, at the end of each
// period. What it remembers of earlier periods is lost when it stops.
type Controller struct {
	*reconcile.Controller[string]
	config Config

	mu sync.Mutex
	// histories are by the key of an autoscaler, and so are the selectors of its pods.
	histories map[string]*history
	selectors map[string]*selector.LabelSelector
}

var autoscalerKind = autoscalingv2.SchemeGroupVersion.WithKind("HorizontalPodAutoscaler")

// New returns a controller, or an error if config lacks a required field. It starts nothing.
func New(config Config) (*Controller, error) {
	err := loop.Required("autoscale: Config", "Autoscalers", config.Autoscalers, "Pods", config.Pods, "PodsByNamespace", config.PodsByNamespace,
		"Writer", config.Writer, "Scales", config.Scales, "Source", config.Source)
	if err != nil {
		return nil, err
	}
	if config.Events == nil {
		config.Events = controllers.NoEvents{}
	}
	config.Tuning.complete()
	c := &Controller{config: config, histories: map[string]*history{}, selectors: map[string]*selector.LabelSelector{}}
	if c.Controller, err = loop.New(loop.Config{Name: "horizontalpodautoscaler", Workers: config.Workers, Log: config.Log, Metrics: config.Metrics}, c.reconcile); err != nil {
		return nil, err
	}
	// An autoscaler is looked at once a period, whatever changes.
	reconcile.WatchFunc(c.Controller, config.Autoscalers, func(old, new *autoscalingv2.HorizontalPodAutoscaler) {
		switch {
		case new == nil:
			c.Enqueue(localcache.KeyOf(old))
		case old == nil || old.UID != new.UID:
			c.EnqueueAfter(localcache.KeyOf(new), config.Tuning.Period)
		}
	})
	reconcile.WatchFunc(c.Controller, config.Pods, func(_, _ *corev1.Pod) {}) // its cache must have synced
	return c, nil
}

// Run works until ctx is done and returns nil.
func (c *Controller) Run(ctx context.Context) error { return c.Controller.Run(ctx) }

// reconcile never fails: a failure is in the conditions and the events, and waits for the next period.
func (c *Controller) reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	cached, ok := c.config.Autoscalers.Get(key)
	if !ok {
		c.forget(key)
		return reconcile.Result{}, nil
	}
	s := &attempt{Controller: c, key: key, hpa: cached.DeepCopy(), history: c.historyOf(key, cached), now: time.Now()}
	if err := s.run(ctx); err != nil && ctx.Err() == nil {
		c.config.Log.Error(err, "not scaled", "autoscaler", key)
	}
	return reconcile.Result{After: c.config.Tuning.Period}, nil
}

func (c *Controller) forget(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.histories, key)
	delete(c.selectors, key)
}

func (c *Controller) historyOf(key string, hpa *autoscalingv2.HorizontalPodAutoscaler) *history {
	c.mu.Lock()
	defer c.mu.Unlock()
	h := c.histories[key]
	if h == nil || h.of != hpa.UID {
		h = &history{of: hpa.UID}
		c.histories[key] = h
	}
	return h
}

// podsOf records the selector of an autoscaler, and returns its pods and the keys of the autoscalers that select
// any of them.
func (c *Controller) podsOf(key, namespace string, wanted *selector.LabelSelector) (pods []*corev1.Pod, by []string) {
	c.mu.Lock()
	c.selectors[key] = wanted
	rivals := map[string]*selector.LabelSelector{}
	for other, of := range c.selectors {
		if other != key && namespaceOf(other) == namespace {
			rivals[other] = of
		}
	}
	c.mu.Unlock()
	found := map[string]bool{}
	for pod := range c.config.PodsByNamespace.Get(namespace) {
		if !wanted.Matches(pod.Labels) {
			continue
		}
		pods = append(pods, pod)
		found[key] = true
		for other, of := range rivals {
			if of.Matches(pod.Labels) {
				found[other] = true
			}
		}
	}
	return pods, sortedKeys(found)
}

func (c *Controller) event(hpa *autoscalingv2.HorizontalPodAutoscaler, kind, reason, format string, args ...any) {
	c.config.Events.Event(loop.Reference(hpa, autoscalerKind), kind, reason, fmt.Sprintf(format, args...))
}
