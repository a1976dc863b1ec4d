package loop

import (
	"errors"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Refused reports whether err says that a write certainly did not take place.
func Refused(err error) bool {
	switch apierrors.ReasonForError(err) {
	case metav1.StatusReasonForbidden, metav1.StatusReasonInvalid, metav1.StatusReasonTooManyRequests, metav1.StatusReasonUnauthorized,
		metav1.StatusReasonBadRequest, metav1.StatusReasonNotFound, metav1.StatusReasonMethodNotAllowed,
		metav1.StatusReasonRequestEntityTooLarge, metav1.StatusReasonUnsupportedMediaType:
		return true
	}
	return false
}

// InParallel calls f for all elements concurrently and joins the errors.
func InParallel[E any](elements []E, f func(E) error) error {
	if len(elements) == 1 {
		return f(elements[0])
	}
	failures := make([]error, len(elements))
	var all sync.WaitGroup
	for i, e := range elements {
		all.Go(func() { failures[i] = f(e) })
	}
	all.Wait()
	return JoinReal(failures)
}

// JoinReal joins failures. It leaves out those that only say that a cache is stale, unless there
// are no other ones.
func JoinReal(failures []error) error {
	if real := slices.DeleteFunc(slices.Clone(failures), IsStale); errors.Join(real...) != nil {
		failures = real
	}
	return errors.Join(failures...)
}

// Reference returns a reference to object for an Event object. Cached objects do not carry their
// own kind.
func Reference(object metav1.Object, kind schema.GroupVersionKind) *corev1.ObjectReference {
	return &corev1.ObjectReference{
		APIVersion: kind.GroupVersion().String(), Kind: kind.Kind,
		Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(), ResourceVersion: object.GetResourceVersion(),
	}
}
