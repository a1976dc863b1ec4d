package controllers

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// PodWriter is how controllers make and remove pods.
type PodWriter interface {
	Creator[*corev1.Pod]
	Deleter
}

// owner is an object that controls pods.
type owner interface {
	runtime.Object
	metav1.Object
}

// podControl makes and removes the pods of owners of one kind, and knows what
// of that the local copy cannot show yet.
type podControl struct {
	writer  PodWriter
	events  Events
	kind    schema.GroupVersionKind
	written written
	doomed  doomed
}

// burst is the most pods made or removed in one call of a reconciler.
const burst = 500

// create makes a pod for each name: one, then two at a time, four and so on,
// and stops after the first batch with a failure, so that what cannot succeed
// (a quota, a bad template) is not tried 500 times.
func (p *podControl) create(ctx context.Context, o owner, template *corev1.PodTemplateSpec, names []string) error {
	for size := 1; len(names) > 0; size *= 2 {
		batch := names[:min(size, len(names))]
		names = names[len(batch):]
		if err := inParallel(batch, func(name string) error { return p.createOne(ctx, o, template, name) }); err != nil {
			return err
		}
	}
	return nil
}

func (p *podControl) createOne(ctx context.Context, o owner, template *corev1.PodTemplateSpec, name string) error {
	pod, err := p.writer.Create(ctx, newPod(o, *metav1.NewControllerRef(o, p.kind), template, name))
	switch {
	case err == nil:
		p.written.add(key(o), pod.ResourceVersion)
		p.events.Event(o, corev1.EventTypeNormal, "SuccessfulCreate", "Created pod: "+pod.Name)
		return nil
	case apierrors.IsAlreadyExists(err):
		// Made by an attempt whose answer was lost, by a predecessor, or by somebody
		// else. The copy will show which.
		return errStale
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil // the owner is about to go as well
	}
	if ctx.Err() == nil {
		p.events.Event(o, corev1.EventTypeWarning, "FailedCreate", "Error creating: "+err.Error())
	}
	return fmt.Errorf("create pod %s/%s: %w", o.GetNamespace(), name, err)
}

// delete removes pods.
func (p *podControl) delete(ctx context.Context, o owner, pods []*corev1.Pod) error {
	return inParallel(pods, func(pod *corev1.Pod) error { return p.deleteOne(ctx, o, pod) })
}

func (p *podControl) deleteOne(ctx context.Context, o owner, pod *corev1.Pod) error {
	// Marked before the attempt: if its answer is lost, the pod may be gone.
	p.doomed.set(key(o), pod.UID, false)
	err := p.writer.Delete(ctx, pod.Namespace, pod.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &pod.UID},
	})
	switch {
	case err == nil:
		p.doomed.set(key(o), pod.UID, true)
		p.events.Event(o, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted pod: "+pod.Name)
		return nil
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		p.doomed.set(key(o), pod.UID, true) // no pod of this UID
		return nil
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsTooManyRequests(err), apierrors.IsUnauthorized(err):
		p.doomed.forget(key(o), pod.UID) // refused for certain
	}
	if ctx.Err() == nil {
		p.events.Event(o, corev1.EventTypeWarning, "FailedDelete", "Error deleting: "+err.Error())
	}
	return fmt.Errorf("delete pod %s: %w", key(pod), err)
}

// inParallel calls f for each element at once and joins the errors. Those
// which only say that the copy is old are left out if there are others.
func inParallel[E any](elements []E, f func(E) error) error {
	if len(elements) == 1 {
		return f(elements[0])
	}
	failures := make([]error, len(elements))
	var all sync.WaitGroup
	for i, e := range elements {
		all.Go(func() { failures[i] = f(e) })
	}
	all.Wait()
	if real := slices.DeleteFunc(slices.Clone(failures), isStale); errors.Join(real...) != nil {
		failures = real
	}
	return errors.Join(failures...)
}

// doomed has the pods whose deletion was asked for and is not yet to be seen
// in the local copy.
type doomed struct {
	mu sync.Mutex
	// pods is guarded by mu. By owner and UID it tells whether the API has
	// confirmed the deletion.
	pods map[string]map[types.UID]bool
}

func (d *doomed) set(owner string, uid types.UID, confirmed bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pods == nil {
		d.pods = make(map[string]map[types.UID]bool)
	}
	if d.pods[owner] == nil {
		d.pods[owner] = make(map[types.UID]bool)
	}
	d.pods[owner][uid] = confirmed
}

func (d *doomed) forget(owner string, uid types.UID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.pods[owner], uid)
	if len(d.pods[owner]) == 0 {
		delete(d.pods, owner)
	}
}

// split divides pods, all that owner has in the local copy, into those that
// are not about to go, those whose deletion must be tried again, and the rest.
// What the copy shows by now is forgotten.
func (d *doomed) split(owner string, pods []*corev1.Pod) (staying, retry, going []*corev1.Pod) {
	d.mu.Lock()
	defer d.mu.Unlock()
	before, after := d.pods[owner], make(map[types.UID]bool)
	for _, pod := range pods {
		confirmed, found := before[pod.UID]
		switch {
		case pod.DeletionTimestamp != nil:
			going = append(going, pod)
		case !found:
			staying = append(staying, pod)
		default:
			after[pod.UID] = confirmed
			if !confirmed {
				retry = append(retry, pod)
			} else {
				going = append(going, pod)
			}
		}
	}
	delete(d.pods, owner)
	if len(after) > 0 {
		d.pods[owner] = after
	}
	return staying, retry, going
}
