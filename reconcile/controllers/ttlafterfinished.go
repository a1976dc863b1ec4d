package controllers

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TTLAfterFinishedConfig joins a TTLAfterFinished controller to its
// surroundings. Jobs and Writer must be set.
type TTLAfterFinishedConfig struct {
	Jobs localcache.Cache[*batchv1.Job]
	// Writer reads Jobs from the API, not from a local copy, and deletes them.
	Writer interface {
		Getter[*batchv1.Job]
		Deleter
	}
	// Workers is how many Jobs are worked on at a time. Zero is 5.
	Workers int
	Log     logr.Logger
}

// TTLAfterFinished deletes Jobs some time after they are over, if they say so,
// and their pods with them.
type TTLAfterFinished struct {
	*loop
	config TTLAfterFinishedConfig
}

// NewTTLAfterFinished checks config. It starts nothing.
func NewTTLAfterFinished(config TTLAfterFinishedConfig) (*TTLAfterFinished, error) {
	if err := required("TTLAfterFinishedConfig", "Jobs", config.Jobs, "Writer", config.Writer); err != nil {
		return nil, err
	}
	c := &TTLAfterFinished{config: config}
	var err error
	if c.loop, err = newLoop("ttlafterfinished", config.Workers, config.Log, reconcile.Backoff{}, c.reconcile); err != nil {
		return nil, err
	}
	watch(c.loop, config.Jobs, func(_, new *batchv1.Job) {
		if new == nil {
			return
		}
		if _, ok := timeToLive(new, time.Now()); ok {
			c.Enqueue(key(new))
		}
	})
	return c, nil
}

// timeToLive is how long a Job may still be there. A Job that is not over, has
// no such time, or is about to go anyway, has none.
func timeToLive(job *batchv1.Job, now time.Time) (left time.Duration, ok bool) {
	if job.DeletionTimestamp != nil || job.Spec.TTLSecondsAfterFinished == nil {
		return 0, false
	}
	for _, c := range job.Status.Conditions {
		if (c.Type == batchv1.JobComplete || c.Type == batchv1.JobFailed) && c.Status == corev1.ConditionTrue && !c.LastTransitionTime.IsZero() {
			return c.LastTransitionTime.Add(time.Duration(*job.Spec.TTLSecondsAfterFinished) * time.Second).Sub(now), true
		}
	}
	return 0, false
}

func (c *TTLAfterFinished) reconcile(ctx context.Context, key string) (reconcile.Result, error) {
	job, ok := c.config.Jobs.Get(key)
	if !ok {
		return reconcile.Result{}, nil
	}
	if left, ok := timeToLive(job, time.Now()); !ok || left > 0 {
		return reconcile.Result{After: left}, nil
	}
	// The copy may not know that somebody has prolonged its life.
	fresh, err := c.config.Writer.Get(ctx, job.Namespace, job.Name)
	switch {
	case apierrors.IsNotFound(err):
		return reconcile.Result{}, nil
	case err != nil:
		return reconcile.Result{}, fmt.Errorf("job %s: %w", key, err)
	}
	if left, ok := timeToLive(fresh, time.Now()); !ok || left > 0 {
		return reconcile.Result{After: left}, nil
	}
	foreground := metav1.DeletePropagationForeground
	err = c.config.Writer.Delete(ctx, fresh.Namespace, fresh.Name, metav1.DeleteOptions{
		PropagationPolicy: &foreground,
		Preconditions:     &metav1.Preconditions{UID: &fresh.UID, ResourceVersion: &fresh.ResourceVersion},
	})
	if err != nil && !apierrors.IsNotFound(err) {
		return reconcile.Result{}, fmt.Errorf("delete job %s: %w", key, err)
	}
	return reconcile.Result{}, nil
}
