package job

import (
	"context"
	"fmt"
	"slices"

	"github.com/planekit/planekit/internal/selector"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile"
	"github.com/planekit/planekit/reconcile/controllers/internal/loop"
	"github.com/planekit/planekit/reconcile/controllers/owner"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// jobSelector returns the selector of the pods of a Job. The API server sets it in every Job.
func jobSelector(job *batchv1.Job) *metav1.LabelSelector {
	if job.Spec.Selector == nil {
		return &metav1.LabelSelector{MatchLabels: map[string]string{batchv1.ControllerUidLabel: string(job.UID)}}
	}
	return job.Spec.Selector
}

// podChanged enqueues the Jobs that control the pod or may adopt it.
func (c *Controller) podChanged(old, new *corev1.Pod) {
	for key := range owner.Controllers[*corev1.Pod](batchv1.GroupName, jobKind.Kind)(old, new) {
		c.Enqueue(key)
	}
	if new == nil || owner.SameOrphan(old, new) {
		return
	}
	for key := range owner.Adopters(new, c.config.Jobs.All(), jobSelector) {
		c.Enqueue(key)
	}
}

// claim returns the pods of job. It adopts orphans and releases pods that no longer match. changed
// reports that there were any, so that the cache must show them first. An adopted pod gets the
// finalizer in the same write, and a released pod loses it.
func (c *Controller) claim(ctx context.Context, job *batchv1.Job) (mine []*corev1.Pod, changed bool, err error) {
	wanted, err := selector.Of(jobSelector(job))
	if err != nil {
		return nil, false, fmt.Errorf("selector of job %s: %w", localcache.KeyOf(job), err)
	}
	claimed := owner.PlanClaims(job, wanted, slices.Collect(c.config.PodsByController.Get(job.UID)),
		slices.Collect(c.config.PodsByController.Get(owner.Orphans(job.Namespace))))
	if len(claimed.Release)+len(claimed.Adopt) == 0 {
		return claimed.Mine, false, nil
	}
	for _, pod := range claimed.Release {
		finalizers := slices.DeleteFunc(slices.Clone(pod.Finalizers), func(f string) bool { return f == batchv1.JobTrackingFinalizer })
		if err := c.reown(ctx, job, "release", pod, owner.Without(pod.OwnerReferences, job.UID), finalizers); err != nil {
			return nil, true, err
		}
	}
	if len(claimed.Adopt) == 0 {
		return nil, true, nil
	}
	fresh, err := c.config.Writer.Get(ctx, job.Namespace, job.Name)
	switch {
	case err != nil:
		return nil, true, fmt.Errorf("confirm job %s: %w", localcache.KeyOf(job), err)
	case fresh.UID != job.UID || fresh.DeletionTimestamp != nil:
		return nil, true, loop.ErrStale // what was orphaned on purpose is not taken back
	}
	for _, pod := range claimed.Adopt {
		owners := append(slices.Clone(pod.OwnerReferences), *metav1.NewControllerRef(job, jobKind))
		if err := c.reown(ctx, job, "adopt", pod, owners, withString(pod.Finalizers, batchv1.JobTrackingFinalizer)); err != nil {
			return nil, true, err
		}
	}
	return nil, true, nil
}

func (c *Controller) reown(ctx context.Context, job *batchv1.Job, verb string, pod *corev1.Pod, owners []metav1.OwnerReference, finalizers []string) error {
	p := owner.NewMetadataPatch(pod)
	owners, finalizers = slices.Grow(owners, 1), slices.Grow(finalizers, 1) // empty, not null, in JSON
	p.Metadata.OwnerReferences, p.Metadata.Finalizers = &owners, &finalizers
	changed, err := c.config.PodWriter.Patch(ctx, pod.Namespace, pod.Name, types.MergePatchType, p.Bytes())
	if err != nil {
		return fmt.Errorf("%s pod %s: %w", verb, localcache.KeyOf(pod), err)
	}
	c.ledger.Add(localcache.KeyOf(job), c.config.Pods, changed.ResourceVersion)
	return nil
}

// findStrays enqueues the pods of a Job that has finished or is deleted.
func (c *Controller) findStrays(old, new *batchv1.Job) {
	if new == nil {
		c.endings.drop(old.UID)
		new = old
	} else if !jobFinished(new) {
		return
	}
	for pod := range c.config.PodsByController.Get(new.UID) {
		if tracked(pod) {
			c.strays.Enqueue(localcache.KeyOf(pod))
		}
	}
}

// findStray enqueues a tracked pod that is stray. The pods of an unfinished Job are enqueued when
// the Job ends.
func (c *Controller) findStray(_, new *corev1.Pod) {
	if new != nil && tracked(new) && c.isStray(new) {
		c.strays.Enqueue(localcache.KeyOf(new))
	}
}

// isStray reports, as far as the caches know, that no Job will ever release the pod.
func (c *Controller) isStray(pod *corev1.Pod) bool {
	ref := metav1.GetControllerOfNoCopy(pod)
	if ref == nil {
		return true
	}
	if !owner.IsKind(ref, batchv1.GroupName, jobKind.Kind) {
		return false
	}
	job, ok := c.config.Jobs.Get(localcache.Key(pod.Namespace, ref.Name))
	return !ok || job.UID != ref.UID || jobFinished(job) && !managedElsewhere(job)
}

// letGoStray removes the finalizer of a pod whose Job does not exist, is deleted, or has finished.
// It asks the API whether the Job is deleted.
func (c *Controller) letGoStray(ctx context.Context, key string) (reconcile.Result, error) {
	pod, ok := c.config.Pods.Get(key)
	if !ok || !tracked(pod) || !c.isStray(pod) {
		return reconcile.Result{}, nil
	}
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		job, err := c.config.Writer.Get(ctx, pod.Namespace, owner.Name)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return reconcile.Result{}, fmt.Errorf("job of pod %s: %w", key, err)
		case job.UID == owner.UID && (!jobFinished(job) || managedElsewhere(job)):
			return reconcile.Result{}, loop.ErrStale
		}
	}
	_, err := c.config.PodWriter.Patch(ctx, pod.Namespace, pod.Name, types.MergePatchType, owner.FinalizerPatch(pod, batchv1.JobTrackingFinalizer))
	if err != nil && !apierrors.IsNotFound(err) {
		return reconcile.Result{}, fmt.Errorf("let stray pod %s go: %w", key, err)
	}
	return reconcile.Result{}, nil
}
