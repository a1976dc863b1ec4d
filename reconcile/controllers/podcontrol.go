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
	tried   tried
}

// observe takes in the pods of owner that the local copy shows, and divides
// them as [doomed.split] does.
func (p *podControl) observe(owner string, pods []*corev1.Pod) (staying, retry, going []*corev1.Pod) {
	p.tried.observe(owner, pods)
	return p.doomed.split(owner, pods)
}

// drop forgets an owner that is gone.
func (p *podControl) drop(owner string) {
	p.tried.drop(owner)
	p.doomed.split(owner, nil)
}

func (p *podControl) event(o owner, eventtype, reason, message string) {
	p.events.Event(about(o, p.kind), eventtype, reason, message)
}

// burst is the most pods made or removed in one call of a reconciler.
const burst = 500

// create makes n pods: one, then two at a time, four and so on, and stops after
// the first batch with a failure, so that what cannot succeed (a quota, a bad
// template) is not tried 500 times. n was decided looking at pods.
func (p *podControl) create(ctx context.Context, o owner, template *corev1.PodTemplateSpec, n int, pods []*corev1.Pod, cache func(key string) (*corev1.Pod, bool)) error {
	names, err := podNames(o, pods, p.tried.names(key(o)), n, cache)
	if err != nil {
		return err
	}
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
	// Noted before the attempt: if its answer is lost, the pod may exist.
	p.tried.add(key(o), name)
	pod, err := p.writer.Create(ctx, newPod(o, *metav1.NewControllerRef(o, p.kind), template, name))
	if err == nil || refused(err) {
		p.tried.forget(key(o), name)
	}
	switch {
	case err == nil:
		p.written.add(key(o), pod.ResourceVersion)
		p.event(o, corev1.EventTypeNormal, "SuccessfulCreate", "Created pod: "+pod.Name)
		return nil
	case apierrors.IsAlreadyExists(err):
		// Made by an attempt whose answer was lost, by a predecessor, or by somebody
		// else. The copy will show which.
		return errStale
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil // the owner is about to go as well
	}
	if ctx.Err() == nil {
		p.event(o, corev1.EventTypeWarning, "FailedCreate", "Error creating: "+err.Error())
	}
	return &podError{err.Error(), fmt.Errorf("create pod %s/%s: %w", o.GetNamespace(), name, err)}
}

// noPod is the UID of no pod.
const noPod types.UID = "none"

// probe finds out which of the pods of o that were tried do not exist. It asks
// for their deletion under a condition that none meets.
func (p *podControl) probe(ctx context.Context, o owner) error {
	for _, name := range p.tried.names(key(o)) {
		none := noPod
		err := p.writer.Delete(ctx, o.GetNamespace(), name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &none}})
		switch {
		case apierrors.IsNotFound(err):
			p.tried.forget(key(o), name)
		case !apierrors.IsConflict(err): // which says that it exists, and will show up
			return fmt.Errorf("look for pod %s/%s: %w", o.GetNamespace(), name, err)
		}
	}
	return nil
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
		p.event(o, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted pod: "+pod.Name)
		return nil
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		p.doomed.set(key(o), pod.UID, true) // no pod of this UID
		return nil
	case refused(err):
		p.doomed.forget(key(o), pod.UID)
	}
	if ctx.Err() == nil {
		p.event(o, corev1.EventTypeWarning, "FailedDelete", "Error deleting: "+err.Error())
	}
	return &podError{"unable to delete pods: " + err.Error(), fmt.Errorf("delete pod %s: %w", key(pod), err)}
}

// podError is a failure to make or remove a pod.
type podError struct {
	text string // of a condition
	error
}

func (e *podError) Unwrap() error { return e.error }

// podFailure is what a condition says of a failure. Of several the first stands
// for all: they mostly say the same.
func podFailure(err error) string {
	if p, ok := errors.AsType[*podError](err); ok {
		return p.text
	}
	return err.Error()
}

// refused tells that a write did not take place for certain.
func refused(err error) bool {
	switch apierrors.ReasonForError(err) {
	case metav1.StatusReasonForbidden, metav1.StatusReasonInvalid, metav1.StatusReasonTooManyRequests, metav1.StatusReasonUnauthorized,
		metav1.StatusReasonBadRequest, metav1.StatusReasonNotFound, metav1.StatusReasonMethodNotAllowed,
		metav1.StatusReasonRequestEntityTooLarge, metav1.StatusReasonUnsupportedMediaType:
		return true
	}
	return false
}

// inParallel calls f for each element at once and joins the errors.
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
	return joinReal(failures)
}

// joinReal joins failures. Those which only say that the copy is old are left
// out if there are others.
func joinReal(failures []error) error {
	if real := slices.DeleteFunc(slices.Clone(failures), isStale); errors.Join(real...) != nil {
		failures = real
	}
	return errors.Join(failures...)
}
