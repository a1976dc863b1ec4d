package owner

import (
	"context"
	"errors"
	"fmt"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/internal/loop"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// PodWriter creates and deletes pods.
type PodWriter interface {
	controllers.Creator[*corev1.Pod]
	controllers.Deleter
}

// Owner is an object that controls pods.
type Owner interface {
	runtime.Object
	metav1.Object
}

// PodControl creates and deletes the pods of owners of one kind, and remembers the writes that the
// cache does not show yet. All fields are required.
type PodControl struct {
	Writer PodWriter
	Events controllers.Events
	Kind   schema.GroupVersionKind
	// Cache is the cache of pods.
	Cache PodCache
	// Ledger receives the writes of pods. The caller waits for them.
	Ledger *Ledger

	attempts  attempts
	deletions deletions
}

// PodCache is the part of a [localcache.Cache] of pods that a PodControl uses.
type PodCache interface {
	Get(key string) (*corev1.Pod, bool)
	Waiter
}

// Observe compares the cached pods of owner with what was written, and divides them into those that
// stay, those whose deletion must be tried again, and those that are being deleted.
func (p *PodControl) Observe(owner string, pods []*corev1.Pod) (staying, retry, going []*corev1.Pod) {
	p.attempts.observe(owner, pods)
	return p.deletions.split(owner, pods)
}

// Drop forgets a deleted owner.
func (p *PodControl) Drop(owner string) {
	p.attempts.drop(owner)
	p.deletions.split(owner, nil)
}

// Unanswered returns the names of the pods of owner whose creation may have succeeded and that the
// cache does not show.
func (p *PodControl) Unanswered(owner string) []string { return p.attempts.names(owner) }

// Attempt records that the creation of a pod is about to be tried: if its answer is lost, the pod
// may exist.
func (p *PodControl) Attempt(owner, name string) { p.attempts.add(owner, name) }

// Answered records that the outcome of a creation is known.
func (p *PodControl) Answered(owner, name string) { p.attempts.forget(owner, name) }

func (p *PodControl) event(o Owner, eventtype, reason, message string) {
	p.Events.Event(loop.Reference(o, p.Kind), eventtype, reason, message)
}

// Burst is the maximum number of pods created or deleted in one call of a reconciler.
const Burst = 500

// Create creates n pods: one, then two concurrently, four and so on. It stops after the first batch
// with a failure, so that a creation that cannot succeed, because of a quota or a bad template, is
// not tried 500 times. pods are those of o that the caller saw when it chose n.
func (p *PodControl) Create(ctx context.Context, o Owner, template *corev1.PodTemplateSpec, n int, pods []*corev1.Pod) error {
	names, err := PodNames(o, pods, p.attempts.names(localcache.KeyOf(o)), n, p.Cache.Get)
	if err != nil {
		return err
	}
	for size := 1; len(names) > 0; size *= 2 {
		batch := names[:min(size, len(names))]
		names = names[len(batch):]
		if err := loop.InParallel(batch, func(name string) error { return p.createOne(ctx, o, template, name) }); err != nil {
			return err
		}
	}
	return nil
}

func (p *PodControl) createOne(ctx context.Context, o Owner, template *corev1.PodTemplateSpec, name string) error {
	key := localcache.KeyOf(o)
	p.Attempt(key, name)
	pod, err := p.Writer.Create(ctx, NewPod(o, *metav1.NewControllerRef(o, p.Kind), template, name))
	if err == nil || loop.Refused(err) {
		p.Answered(key, name)
	}
	switch {
	case err == nil:
		p.Ledger.Add(key, p.Cache, pod.ResourceVersion)
		p.event(o, corev1.EventTypeNormal, "SuccessfulCreate", "Created pod: "+pod.Name)
		return nil
	case apierrors.IsAlreadyExists(err):
		// Created by an attempt whose answer was lost, by a previous process, or by
		// another client. The cache will show which.
		return loop.ErrStale
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil // the owner is about to be deleted as well
	}
	if ctx.Err() == nil {
		p.event(o, corev1.EventTypeWarning, "FailedCreate", "Error creating: "+err.Error())
	}
	return &PodError{err.Error(), fmt.Errorf("create pod %s/%s: %w", o.GetNamespace(), name, err)}
}

// noPod is the UID of no pod.
const noPod types.UID = "none"

// Probe finds out which of the unanswered pods of o do not exist. It requests their deletion with a
// precondition that no pod meets.
func (p *PodControl) Probe(ctx context.Context, o Owner) error {
	key := localcache.KeyOf(o)
	for _, name := range p.attempts.names(key) {
		none := noPod
		err := p.Writer.Delete(ctx, o.GetNamespace(), name, metav1.DeleteOptions{Preconditions: &metav1.Preconditions{UID: &none}})
		switch {
		case apierrors.IsNotFound(err):
			p.Answered(key, name)
		case !apierrors.IsConflict(err): // a conflict means that it exists, and the cache will show it
			return fmt.Errorf("look for pod %s/%s: %w", o.GetNamespace(), name, err)
		}
	}
	return nil
}

// Delete deletes pods of o concurrently.
func (p *PodControl) Delete(ctx context.Context, o Owner, pods []*corev1.Pod) error {
	return loop.InParallel(pods, func(pod *corev1.Pod) error { return p.deleteOne(ctx, o, pod) })
}

func (p *PodControl) deleteOne(ctx context.Context, o Owner, pod *corev1.Pod) error {
	key := localcache.KeyOf(o)
	// Recorded before the attempt: if its answer is lost, the pod may be deleted.
	p.deletions.set(key, pod.UID, false)
	err := p.Writer.Delete(ctx, pod.Namespace, pod.Name, metav1.DeleteOptions{
		Preconditions: &metav1.Preconditions{UID: &pod.UID},
	})
	switch {
	case err == nil:
		p.deletions.set(key, pod.UID, true)
		p.event(o, corev1.EventTypeNormal, "SuccessfulDelete", "Deleted pod: "+pod.Name)
		return nil
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		p.deletions.set(key, pod.UID, true) // no pod has this UID
		return nil
	case loop.Refused(err):
		p.deletions.forget(key, pod.UID)
	}
	if ctx.Err() == nil {
		p.event(o, corev1.EventTypeWarning, "FailedDelete", "Error deleting: "+err.Error())
	}
	return &PodError{"unable to delete pods: " + err.Error(), fmt.Errorf("delete pod %s: %w", localcache.KeyOf(pod), err)}
}

// PodError is a failure to create or delete a pod.
type PodError struct {
	// Text is the message of a condition.
	Text string
	// Err is the cause.
	Err error
}

// Error returns the text of the cause.
func (e *PodError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *PodError) Unwrap() error { return e.Err }

// PodFailure returns the message of a condition about err. The first of several failures stands for
// all of them: they mostly say the same.
func PodFailure(err error) string {
	if p, ok := errors.AsType[*PodError](err); ok {
		return p.Text
	}
	return err.Error()
}
