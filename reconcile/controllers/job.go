package controllers

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/reconcile"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
)

// JobConfig joins a Job controller to its surroundings. All fields but the
// last three must be set.
type JobConfig struct {
	Jobs Cache[*batchv1.Job]
	Pods Cache[*corev1.Pod]
	// PodsByController is an index of Pods by [ByController].
	PodsByController Index[*corev1.Pod]
	// Status writes the status of Jobs.
	Status StatusUpdater[*batchv1.Job]
	Writer PodWriter
	// Events may be nil.
	Events Events
	// Workers is how many Jobs are worked on at a time. Zero is 5.
	Workers int
	Log     logr.Logger
}

// Job runs pods until enough have succeeded.
//
// It counts the pods that exist, without finalizers on them: a pod that is
// removed after it has ended, and before a status with it was written, is run
// again. Counts never go down.
type Job struct {
	*loop
	config JobConfig
	pods   podControl
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
	watch(c.loop, config.Jobs, enqueueObject[*batchv1.Job](c.loop))
	watch(c.loop, config.Pods, enqueueController[*corev1.Pod](c.loop, batchv1.GroupName, jobKind.Kind))
	return c, nil
}

func (c *Job) reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	if err := c.pods.written.wait(ctx, key, c.config.Pods.WaitFor); err != nil {
		return reconcile.Result{}, err
	}
	job, ok := c.config.Jobs.Get(key)
	if !ok || job.DeletionTimestamp != nil {
		c.pods.drop(key)
		return reconcile.Result{}, nil
	}
	if jobCondition(job, batchv1.JobComplete) || jobCondition(job, batchv1.JobFailed) {
		return reconcile.Result{}, nil
	}
	if value(job.Spec.CompletionMode, batchv1.NonIndexedCompletion) != batchv1.NonIndexedCompletion {
		c.config.Events.Event(job, corev1.EventTypeWarning, "UnknownCompletionMode",
			fmt.Sprintf("Skipped Job sync because completion mode %q is not supported", *job.Spec.CompletionMode))
		return reconcile.Result{}, nil
	}
	owned := slices.Collect(c.config.PodsByController.Get(job.UID))
	staying, retry, going := c.pods.observe(key, owned)
	now := time.Now()
	plan := planJob(job, staying, append(retry, going...), now)
	plan.delete = append(plan.delete, retry...)
	actErr := c.act(ctx, job, owned, plan)
	if !equality.Semantic.DeepEqual(job.Status, plan.status) {
		update := job.DeepCopy()
		update.Status = plan.status
		if _, err := c.config.Status.UpdateStatus(ctx, update); err != nil && actErr == nil {
			return reconcile.Result{}, fmt.Errorf("status of job %s: %w", key, err)
		} else if err == nil {
			c.tell(job, plan.status)
		}
	}
	return reconcile.Result{Requeue: plan.more, After: plan.again}, actErr
}

func (c *Job) act(ctx context.Context, job *batchv1.Job, owned []*corev1.Pod, plan jobPlan) error {
	if len(plan.delete) > 0 {
		return c.pods.delete(ctx, job, plan.delete)
	}
	if plan.create == 0 {
		return nil
	}
	return c.pods.create(ctx, job, jobTemplate(job), plan.create, owned, c.config.Pods.Get)
}

// jobTemplate is the pod template with the labels by which the pods of a Job
// are known. An API server may have put them there already.
func jobTemplate(job *batchv1.Job) *corev1.PodTemplateSpec {
	t := job.Spec.Template.DeepCopy()
	if t.Labels == nil {
		t.Labels = make(map[string]string)
	}
	for _, label := range []string{batchv1.JobNameLabel, "job-name"} {
		t.Labels[label] = job.Name
	}
	for _, label := range []string{batchv1.ControllerUidLabel, "controller-uid"} {
		t.Labels[label] = string(job.UID)
	}
	return t
}

// tell makes an event of every condition that is new.
func (c *Job) tell(job *batchv1.Job, status batchv1.JobStatus) {
	for _, condition := range status.Conditions {
		if condition.Status != corev1.ConditionTrue || jobCondition(job, condition.Type) {
			continue
		}
		switch condition.Type {
		case batchv1.JobComplete:
			c.config.Events.Event(job, corev1.EventTypeNormal, "Completed", "Job completed")
		case batchv1.JobFailed:
			c.config.Events.Event(job, corev1.EventTypeWarning, condition.Reason, condition.Message)
		case batchv1.JobSuspended:
			c.config.Events.Event(job, corev1.EventTypeNormal, "Suspended", "Job suspended")
		}
	}
}

func jobCondition(job *batchv1.Job, kind batchv1.JobConditionType) bool {
	return slices.ContainsFunc(job.Status.Conditions, func(c batchv1.JobCondition) bool {
		return c.Type == kind && c.Status == corev1.ConditionTrue
	})
}
