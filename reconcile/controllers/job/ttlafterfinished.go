package job

import (
	"context"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/internal/loop"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TTLAfterFinishedConfig configures a TTLAfterFinished. Jobs and Writer are required.
type TTLAfterFinishedConfig struct {
	Jobs localcache.Cache[*batchv1.Job]
	// Writer reads Jobs from the API, not from a cache, and deletes them.
	Writer interface {
		controllers.Getter[*batchv1.Job]
		controllers.Deleter
	}
	// Workers is the number of Jobs processed concurrently. Zero means 5.
	Workers int
	// Metrics receives the measurements of the queue and the workers. Nil means none.
	Metrics controllers.Metrics
	// Log receives failures. The zero Logger discards them.
	Log logr.Logger
}

// TTLAfterFinished deletes finished Jobs and their pods when the Jobs' time to live has ended.
type TTLAfterFinished struct {
	*reconcile.Controller[string]
	config TTLAfterFinishedConfig
}

// NewTTLAfterFinished returns a controller, or an error if config lacks a required field. It starts
// nothing.
func NewTTLAfterFinished(config TTLAfterFinishedConfig) (*TTLAfterFinished, error) {
	if err := loop.Required("job: TTLAfterFinishedConfig", "Jobs", config.Jobs, "Writer", config.Writer); err != nil {
		return nil, err
	}
	c := &TTLAfterFinished{config: config}
	var err error
	if c.Controller, err = loop.New(loop.Config{Name: "ttlafterfinished", Workers: config.Workers, Log: config.Log, Metrics: config.Metrics}, c.reconcile); err != nil {
		return nil, err
	}
	reconcile.WatchFunc(c.Controller, config.Jobs, func(_, new *batchv1.Job) {
		if new == nil {
			return
		}
		if _, ok := timeToLive(new, time.Now()); ok {
			c.Enqueue(localcache.KeyOf(new))
		}
	})
	return c, nil
}

// timeToLive returns how long a Job may still exist. ok is false for a Job that has not finished,
// has no time to live, or is being deleted.
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
	// The cache may not show that a client has extended the time to live.
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
