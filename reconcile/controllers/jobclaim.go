package controllers

import (
	"context"
	"fmt"
	"slices"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
)

// jobSelector finds the pods of a Job. An API server sees to it that there is a
// selector.
func jobSelector(job *batchv1.Job) (labels.Selector, error) {
	if job.Spec.Selector == nil {
		return labels.SelectorFromSet(labels.Set{batchv1.ControllerUidLabel: string(job.UID)}), nil
	}
	selector, err := metav1.LabelSelectorAsSelector(job.Spec.Selector)
	if err != nil {
		return nil, fmt.Errorf("selector of job %s: %w", key(job), err)
	}
	return selector, nil
}

// podChanged enqueues the Jobs that control the pod or may adopt it.
func (c *Job) podChanged(old, new *corev1.Pod) {
	enqueueController[*corev1.Pod](c.loop, batchv1.GroupName, jobKind.Kind)(old, new)
	if new == nil || metav1.GetControllerOfNoCopy(new) != nil || new.DeletionTimestamp != nil {
		return
	}
	if old != nil && metav1.GetControllerOfNoCopy(old) == nil && equality.Semantic.DeepEqual(old.Labels, new.Labels) {
		return // an orphan that nobody took before
	}
	for job := range c.config.Jobs.All() {
		if job.Namespace != new.Namespace {
			continue
		}
		if selector, err := jobSelector(job); err == nil && selector.Matches(labels.Set(new.Labels)) {
			c.Enqueue(key(job))
		}
	}
}

// claim returns the pods of job. It takes in orphans and lets go of those that
// do not match any more; if there were any, changed is set, and the copy has to
// show it first. Who comes in gets the finalizer by the same write, and who goes
// loses it.
func (c *Job) claim(ctx context.Context, job *batchv1.Job) (mine []*corev1.Pod, changed bool, err error) {
	selector, err := jobSelector(job)
	if err != nil {
		return nil, false, err
	}
	claimed := planClaims(job, selector, slices.Collect(c.config.PodsByController.Get(job.UID)),
		slices.Collect(c.config.PodsByController.Get(Orphans(job.Namespace))))
	if len(claimed.release)+len(claimed.adopt) == 0 {
		return claimed.mine, false, nil
	}
	for _, pod := range claimed.release {
		finalizers := slices.DeleteFunc(slices.Clone(pod.Finalizers), func(f string) bool { return f == batchv1.JobTrackingFinalizer })
		if err := c.reown(ctx, job, "release", pod, withoutOwner(pod.OwnerReferences, job.UID), finalizers); err != nil {
			return nil, true, err
		}
	}
	if len(claimed.adopt) == 0 {
		return nil, true, nil
	}
	fresh, err := c.config.Status.Get(ctx, job.Namespace, job.Name)
	switch {
	case err != nil:
		return nil, true, fmt.Errorf("confirm job %s: %w", key(job), err)
	case fresh.UID != job.UID || fresh.DeletionTimestamp != nil:
		return nil, true, errStale // what was orphaned on purpose is not taken back
	}
	for _, pod := range claimed.adopt {
		owners := append(slices.Clone(pod.OwnerReferences), *metav1.NewControllerRef(job, jobKind))
		if err := c.reown(ctx, job, "adopt", pod, owners, withString(pod.Finalizers, batchv1.JobTrackingFinalizer)); err != nil {
			return nil, true, err
		}
	}
	return nil, true, nil
}

func (c *Job) reown(ctx context.Context, job *batchv1.Job, verb string, pod *corev1.Pod, owners []metav1.OwnerReference, finalizers []string) error {
	p := newMetadataPatch(pod)
	owners, finalizers = slices.Grow(owners, 1), slices.Grow(finalizers, 1) // empty, not null, in JSON
	p.Metadata.OwnerReferences, p.Metadata.Finalizers = &owners, &finalizers
	changed, err := c.config.Writer.Patch(ctx, pod.Namespace, pod.Name, types.MergePatchType, p.bytes())
	if err != nil {
		return fmt.Errorf("%s pod %s: %w", verb, key(pod), err)
	}
	c.pods.written.add(key(job), changed.ResourceVersion)
	return nil
}

// findStrays looks at the pods of a Job that is over or gone.
func (c *Job) findStrays(old, new *batchv1.Job) {
	if new == nil {
		c.endings.drop(old.UID)
		new = old
	} else if !jobFinished(new) {
		return
	}
	for pod := range c.config.PodsByController.Get(new.UID) {
		if tracked(pod) {
			c.strays.Enqueue(key(pod))
		}
	}
}

// findStray looks at pods that are held. Of those of a Job that lives there is
// more to say when it ends.
func (c *Job) findStray(_, new *corev1.Pod) {
	if new != nil && tracked(new) && c.isStray(new) {
		c.strays.Enqueue(key(new))
	}
}

// isStray tells, as far as the copies know, that no Job will ever let the pod
// go.
func (c *Job) isStray(pod *corev1.Pod) bool {
	owner := metav1.GetControllerOfNoCopy(pod)
	if owner == nil {
		return true
	}
	if !isKind(owner, batchv1.GroupName, jobKind.Kind) {
		return false
	}
	job, ok := c.config.Jobs.Get(localcache.Key(pod.Namespace, owner.Name))
	return !ok || job.UID != owner.UID || jobFinished(job) && !managedElsewhere(job)
}

// letGoStray takes the finalizer off a pod that belongs to no Job, or to one
// that is over or gone. That it is gone is asked of the API.
func (c *Job) letGoStray(ctx context.Context, key string) (reconcile.Result, error) {
	pod, ok := c.config.Pods.Get(key)
	if !ok || !tracked(pod) || !c.isStray(pod) {
		return reconcile.Result{}, nil
	}
	if owner := metav1.GetControllerOfNoCopy(pod); owner != nil {
		job, err := c.config.Status.Get(ctx, pod.Namespace, owner.Name)
		switch {
		case apierrors.IsNotFound(err):
		case err != nil:
			return reconcile.Result{}, fmt.Errorf("job of pod %s: %w", key, err)
		case job.UID == owner.UID && (!jobFinished(job) || managedElsewhere(job)):
			return reconcile.Result{}, errStale
		}
	}
	_, err := c.config.Writer.Patch(ctx, pod.Namespace, pod.Name, types.MergePatchType, finalizerPatch(pod, batchv1.JobTrackingFinalizer))
	if err != nil && !apierrors.IsNotFound(err) {
		return reconcile.Result{}, fmt.Errorf("let stray pod %s go: %w", key, err)
	}
	return reconcile.Result{}, nil
}
