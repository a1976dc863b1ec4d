package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// JobConfig joins a Job controller to its surroundings. All fields but the
// last three must be set.
type JobConfig struct {
	Jobs localcache.Cache[*batchv1.Job]
	Pods localcache.Cache[*corev1.Pod]
	// PodsByController is an index of Pods by [ByController].
	PodsByController localcache.Index[types.UID, *corev1.Pod]
	// Status writes the status of Jobs, and reads Jobs from the API, not from a
	// local copy.
	Status interface {
		StatusUpdater[*batchv1.Job]
		Getter[*batchv1.Job]
	}
	Writer interface {
		PodWriter
		Patcher[*corev1.Pod]
	}
	// Events may be nil.
	Events Events
	// Workers is how many Jobs are worked on at a time. Zero is 5.
	Workers int
	Log     logr.Logger
}

// Getter reads an object from the API, not from a local copy.
type Getter[T any] interface {
	Get(ctx context.Context, namespace, name string) (T, error)
}

// Job runs pods until enough have succeeded.
//
// Every pod is counted once. It is held by a finalizer until the status of its
// Job has its UID; when it has been let go, the UID becomes a number. A Job
// that another controller manages is left alone.
type Job struct {
	*loop
	config JobConfig
	pods   podControl
	// stored has the revisions of statuses that were written.
	stored  written
	endings endings
	strays  *loop
}

var jobKind = batchv1.SchemeGroupVersion.WithKind("Job")

// NewJob checks config. It starts nothing.
func NewJob(config JobConfig) (*Job, error) {
	err := required("JobConfig", "Jobs", config.Jobs, "Pods", config.Pods,
		"PodsByController", config.PodsByController, "Status", config.Status, "Writer", config.Writer)
	if err != nil {
		return nil, err
	}
	if config.Events == nil {
		config.Events = noEvents{}
	}
	c := &Job{config: config, pods: podControl{writer: config.Writer, events: config.Events, kind: jobKind}}
	if c.loop, err = newLoop("job", config.Workers, config.Log, reconcile.Backoff{}, c.reconcile); err != nil {
		return nil, err
	}
	if c.strays, err = newLoop("job-strays", config.Workers, config.Log, reconcile.Backoff{}, c.letGoStray); err != nil {
		return nil, err
	}
	watch(c.loop, config.Jobs, enqueueObject[*batchv1.Job](c.loop))
	watch(c.loop, config.Pods, c.podChanged)
	watch(c.strays, config.Jobs, c.findStrays)
	watch(c.strays, config.Pods, c.findStray)
	return c, nil
}

// Run works until ctx is done and returns nil.
func (c *Job) Run(ctx context.Context) error { return Run(ctx, c.loop, c.strays) }

// Observe has m told of what both loops do.
func (c *Job) Observe(m Metrics) error { return errors.Join(c.loop.Observe(m), c.strays.Observe(m)) }

func (c *Job) reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	if err := c.pods.written.wait(ctx, key, c.config.Pods.WaitFor); err != nil {
		return reconcile.Result{}, err
	}
	if err := c.stored.wait(ctx, key, c.config.Jobs.WaitFor); err != nil {
		return reconcile.Result{}, err
	}
	job, ok := c.config.Jobs.Get(key)
	if !ok || managedElsewhere(job) {
		c.pods.drop(key)
		return reconcile.Result{}, nil
	}
	if jobFinished(job) {
		c.pods.drop(key)
		c.endings.drop(job.UID)
		return reconcile.Result{}, nil
	}
	if mode := value(job.Spec.CompletionMode, batchv1.NonIndexedCompletion); mode != batchv1.NonIndexedCompletion && mode != batchv1.IndexedCompletion {
		c.config.Events.Event(job, corev1.EventTypeWarning, "UnknownCompletionMode", "Skipped Job sync because completion mode is unknown")
		return reconcile.Result{}, nil
	}
	owned, changed, err := c.claim(ctx, job)
	if err != nil || changed {
		return reconcile.Result{Requeue: changed}, err
	}
	return c.step(ctx, job, owned)
}

// step takes a Job one step on. Each step may be the last that this process
// takes, and leaves the next one something to go by.
func (c *Job) step(ctx context.Context, job *batchv1.Job, owned []*corev1.Pod) (reconcile.Result, error) {
	_, retry, going := c.pods.observe(key(job), owned)
	if len(retry) > 0 {
		return reconcile.Result{Requeue: true}, c.pods.delete(ctx, job, retry)
	}
	doomed := make(map[types.UID]bool, len(going))
	for _, pod := range going {
		doomed[pod.UID] = true
	}
	pods := sortJobPods(job, owned, func(uid types.UID) bool { return doomed[uid] })
	now := time.Now()
	succeeded, failed := pods.ended()
	plan := planJob(pods, c.endings.wait(job.UID, succeeded, failed, now), now)
	actErr := c.act(ctx, job, owned, &plan)
	if err := c.store(ctx, job, plan.status); err != nil {
		return reconcile.Result{}, err
	}
	if err := c.letGo(ctx, key(job), plan.release); err != nil {
		return reconcile.Result{}, err
	}
	return reconcile.Result{Requeue: plan.more || len(plan.release) > 0, After: plan.again}, actErr
}

// act deletes or makes pods, never both.
func (c *Job) act(ctx context.Context, job *batchv1.Job, owned []*corev1.Pod, plan *jobPlan) error {
	switch {
	case len(plan.end) > 0:
		if err := c.pods.delete(ctx, job, plan.end); err != nil {
			return err
		}
		plan.acted(0, plan.end)
	case len(plan.remove) > 0:
		// Let go first, and so not counted.
		if err := c.letGo(ctx, key(job), slices.DeleteFunc(slices.Clone(plan.remove), func(p *corev1.Pod) bool { return !tracked(p) })); err != nil {
			return err
		}
		if err := c.pods.delete(ctx, job, plan.remove); err != nil {
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

// store writes the status, if it is new, and tells of what is new in it.
func (c *Job) store(ctx context.Context, job *batchv1.Job, status batchv1.JobStatus) error {
	if equality.Semantic.DeepEqual(job.Status, status) {
		return nil
	}
	update := job.DeepCopy()
	update.Status = status
	stored, err := c.config.Status.UpdateStatus(ctx, update)
	switch {
	case apierrors.IsNotFound(err):
		return errStale // that it is gone is on its way to the copy
	case err != nil:
		return fmt.Errorf("status of job %s: %w", key(job), err)
	}
	c.stored.add(key(job), stored.ResourceVersion)
	c.tell(job, status)
	return nil
}

// tell makes an event of every condition that is new.
func (c *Job) tell(job *batchv1.Job, status batchv1.JobStatus) {
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
	return value(job.Spec.ManagedBy, batchv1.JobControllerName) != batchv1.JobControllerName
}

func jobFinished(job *batchv1.Job) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue
	})
}
