package job

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/internal/loop"
	"github.com/planekit/planekit/reconcile/controllers/internal/optional"
	"github.com/planekit/planekit/reconcile/controllers/owner"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// Config configures a Controller. All fields before Events are required.
type Config struct {
	Jobs localcache.Cache[*batchv1.Job]
	Pods localcache.Cache[*corev1.Pod]
	// PodsByController is an index of Pods by [owner.ByController].
	PodsByController localcache.Index[types.UID, *corev1.Pod]
	// Writer writes the status of Jobs, and reads Jobs from the API, not from a cache.
	Writer interface {
		controllers.StatusUpdater[*batchv1.Job]
		controllers.Getter[*batchv1.Job]
	}
	PodWriter interface {
		owner.PodWriter
		controllers.Patcher[*corev1.Pod]
	}
	// Events records Event objects. Nil discards them.
	Events controllers.Events
	// Workers is the number of Jobs processed concurrently. Zero means 5.
	Workers int
	// Metrics receives the measurements of the queue and the workers. Nil means none.
	Metrics controllers.Metrics
	// Log receives failures. The zero Logger discards them.
	Log logr.Logger
}

// Controller runs pods until enough have succeeded.
//
// It counts every pod once. A finalizer holds the pod until the status of its Job has the pod's
// UID; when the finalizer is removed, the UID becomes a number. The controller ignores a Job that
// another controller manages.
type Controller struct {
	*reconcile.Controller[string]
	config Config
	pods   owner.PodControl
	// ledger has the writes of pods and Jobs.
	ledger  owner.Ledger
	endings endings
	strays  *reconcile.Controller[string]
}

var jobKind = batchv1.SchemeGroupVersion.WithKind("Job")

// New returns a controller, or an error if config lacks a required field. It starts nothing.
func New(config Config) (*Controller, error) {
	err := loop.Required("job: Config", "Jobs", config.Jobs, "Pods", config.Pods,
		"PodsByController", config.PodsByController, "Writer", config.Writer, "PodWriter", config.PodWriter)
	if err != nil {
		return nil, err
	}
	if config.Events == nil {
		config.Events = controllers.NoEvents{}
	}
	c := &Controller{config: config, pods: owner.PodControl{Writer: config.PodWriter, Events: config.Events, Kind: jobKind, Cache: config.Pods}}
	c.pods.Ledger = &c.ledger
	if c.Controller, err = loop.New(loop.Config{Name: "job", Workers: config.Workers, Log: config.Log, Metrics: config.Metrics}, c.reconcile); err != nil {
		return nil, err
	}
	if c.strays, err = loop.New(loop.Config{Name: "job-strays", Workers: config.Workers, Log: config.Log, Metrics: config.Metrics}, c.letGoStray); err != nil {
		return nil, err
	}
	reconcile.Watch(c.Controller, config.Jobs, reconcile.Itself(localcache.KeyOf[*batchv1.Job]))
	reconcile.WatchFunc(c.Controller, config.Pods, c.podChanged)
	reconcile.WatchFunc(c.strays, config.Jobs, c.findStrays)
	reconcile.WatchFunc(c.strays, config.Pods, c.findStray)
	return c, nil
}

// Run works until ctx is done and returns nil.
func (c *Controller) Run(ctx context.Context) error {
	return controllers.Run(ctx, c.Controller, c.strays)
}

func (c *Controller) reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	if err := c.ledger.Wait(ctx, key); err != nil {
		return reconcile.Result{}, err
	}
	job, ok := c.config.Jobs.Get(key)
	if !ok || managedElsewhere(job) {
		c.pods.Drop(key)
		return reconcile.Result{}, nil
	}
	if jobFinished(job) {
		c.pods.Drop(key)
		c.endings.drop(job.UID)
		return reconcile.Result{}, nil
	}
	if mode := optional.Value(job.Spec.CompletionMode, batchv1.NonIndexedCompletion); mode != batchv1.NonIndexedCompletion && mode != batchv1.IndexedCompletion {
		c.config.Events.Event(job, corev1.EventTypeWarning, "UnknownCompletionMode", "Skipped Job sync because completion mode is unknown")
		return reconcile.Result{}, nil
	}
	owned, changed, err := c.claim(ctx, job)
	if err != nil || changed {
		return reconcile.Result{Requeue: changed}, err
	}
	return c.step(ctx, job, owned)
}

// step does the next step of a Job. The process may end after any step, and each step leaves the
// next process enough to continue.
func (c *Controller) step(ctx context.Context, job *batchv1.Job, owned []*corev1.Pod) (reconcile.Result, error) {
	_, retry, going := c.pods.Observe(localcache.KeyOf(job), owned)
	if len(retry) > 0 {
		return reconcile.Result{Requeue: true}, c.pods.Delete(ctx, job, retry)
	}
	deleted := make(map[types.UID]bool, len(going))
	for _, pod := range going {
		deleted[pod.UID] = true
	}
	pods := sortJobPods(job, owned, func(uid types.UID) bool { return deleted[uid] })
	now := time.Now()
	succeeded, failed := pods.ended()
	plan := planJob(pods, c.endings.wait(job.UID, succeeded, failed, now), now)
	actErr := c.act(ctx, job, owned, &plan)
	if err := c.store(ctx, job, plan.status); err != nil {
		return reconcile.Result{}, err
	}
	if err := c.letGo(ctx, localcache.KeyOf(job), plan.release); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{Requeue: plan.more || len(plan.release) > 0, After: plan.again}, actErr
}

// act either deletes or creates pods, never both.
func (c *Controller) act(ctx context.Context, job *batchv1.Job, owned []*corev1.Pod, plan *jobPlan) error {
	switch {
	case len(plan.end) > 0:
		if err := c.pods.Delete(ctx, job, plan.end); err != nil {
			return err
		}
		plan.acted(0, plan.end)
	case len(plan.remove) > 0:
		// Remove the finalizer first, so that the pods are not counted.
		if err := c.letGo(ctx, localcache.KeyOf(job), slices.DeleteFunc(slices.Clone(plan.remove), func(p *corev1.Pod) bool { return !tracked(p) })); err != nil {
			return err
		}
		if err := c.pods.Delete(ctx, job, plan.remove); err != nil {
			return err
		}
		plan.acted(0, plan.remove)
	default:
		created, err := c.create(ctx, job, owned, plan)
		plan.acted(created, nil)
		return err
	}
	return nil
}

// store writes the status, if it has changed, and records Event objects about the changes.
func (c *Controller) store(ctx context.Context, job *batchv1.Job, status batchv1.JobStatus) error {
	if equality.Semantic.DeepEqual(job.Status, status) {
		return nil
	}
	update := job.DeepCopy()
	update.Status = status
	stored, err := c.config.Writer.UpdateStatus(ctx, update)
	switch {
	case apierrors.IsNotFound(err):
		return loop.ErrStale // that it is gone is on its way to the copy
	case err != nil:
		return fmt.Errorf("status of job %s: %w", localcache.KeyOf(job), err)
	}
	c.ledger.Add(localcache.KeyOf(job), c.config.Jobs, stored.ResourceVersion)
	c.announce(job, status)
	return nil
}

// announce records an Event object about every new condition.
func (c *Controller) announce(job *batchv1.Job, status batchv1.JobStatus) {
	for _, condition := range status.Conditions {
		before := findJobCondition(&job.Status, condition.Type)
		if before != nil && before.Status == condition.Status {
			continue
		}
		isTrue := condition.Status == corev1.ConditionTrue
		switch {
		case condition.Type == batchv1.JobComplete && isTrue:
			if job.Spec.Completions != nil && status.Succeeded > *job.Spec.Completions {
				c.config.Events.Event(job, corev1.EventTypeWarning, "TooManySucceededPods", "Too many succeeded pods running after completion count reached")
			}
			c.config.Events.Event(job, corev1.EventTypeNormal, "Completed", "Job completed")
		case condition.Type == batchv1.JobFailed && isTrue:
			c.config.Events.Event(job, corev1.EventTypeWarning, condition.Reason, condition.Message)
		case condition.Type == batchv1.JobSuspended && isTrue:
			c.config.Events.Event(job, corev1.EventTypeNormal, "Suspended", "Job suspended")
		case condition.Type == batchv1.JobSuspended:
			c.config.Events.Event(job, corev1.EventTypeNormal, "Resumed", "Job resumed")
		}
	}
}

func managedElsewhere(job *batchv1.Job) bool {
	return optional.Value(job.Spec.ManagedBy, batchv1.JobControllerName) != batchv1.JobControllerName
}

func jobFinished(job *batchv1.Job) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue
	})
}
