package apiserver

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"syscall"
	"time"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/apiserver/internal/ownership"
	"github.com/planekit/planekit/apiserver/internal/wire"
	"github.com/planekit/planekit/internal/budget"
	"github.com/planekit/planekit/storage"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// An admitter asks admission about requests. Its zero value admits everything.
type admitter struct {
	plugins Admission
	report  func(AdmissionSummary) // may be nil
}

// reported runs one half of admission and reports it.
func (a *admitter) reported(q *request, in *admission.Request, half func(context.Context, *admission.Request) error, validating bool) error {
	if a.report == nil {
		return half(q.r.Context(), in)
	}
	began, op := time.Now(), in.Operation
	err := half(q.r.Context(), in)
	a.report(AdmissionSummary{Validating: validating, Operation: op, Took: time.Since(began), Rejected: err != nil})
	return err
}

// mutate runs the mutating half of admission and completes what it left.
func (a *admitter) mutate(q *request, in *admission.Request) error {
	if a.plugins != nil {
		if err := a.change(q, in); err != nil {
			return err
		}
	}
	if m, ok := in.Object.(metav1.Object); ok {
		q.uniqueOwners(m, " after mutating admission happens")
	}
	return nil
}

func (a *admitter) change(q *request, in *admission.Request) error {
	before, tracked := in.Object.(metav1.Object)
	var owners []metav1.ManagedFieldsEntry
	if tracked {
		owners = before.GetManagedFields()
	}
	if err := a.reported(q, in, a.plugins.Mutate, false); err != nil {
		return refused(q, in, err)
	}
	if in.Object == nil {
		return nil
	}
	obj, ok := in.Object.(runtime.Object)
	if !ok {
		return fmt.Errorf("admission made a %T of the object", in.Object)
	}
	if m, ok := in.Object.(metav1.Object); ok && tracked {
		if err := ownership.Check(m.GetManagedFields(), owners); err != nil {
			m.SetManagedFields(owners)
			q.warn(".metadata.managedFields was in an invalid state after admission; " +
				"this could be caused by an outdated mutating admission controller; please fix your requests: " + err.Error())
		}
	}
	if complete := q.kind.Strategy.Default; complete != nil && !q.ownType() && in.Operation != admission.Connect { // whose object is options
		if b, ok := obj.(wire.Bounded); ok {
			b.Within(q.r.Context())
		}
		complete(obj)
		return budget.From(q.r.Context()).Err()
	}
	return nil
}

// admitted is the object as mutate has left it.
func admitted(in *admission.Request) runtime.Object { return in.Object.(runtime.Object) }

// validate runs the validating half of admission.
func (a *admitter) validate(q *request, in *admission.Request) error {
	if a.plugins == nil {
		return nil
	}
	if c, ok := in.Equivalents.(*conversions); ok {
		c.settled = true
	}
	if err := a.reported(q, in, a.plugins.Validate, true); err != nil {
		return refused(q, in, err)
	}
	return nil
}

// refused makes a plugin's error an API error: those that are one already pass, and so
// do those of a plugin that could not decide. All others mean that the request is
// forbidden.
func refused(q *request, in *admission.Request, err error) error {
	if undecided(err) {
		return err
	}
	var forbidden *admission.ForbiddenError
	if errors.As(err, &forbidden) { // whatever it is because of
		return apierrors.NewForbidden(schema.GroupResource{Group: forbidden.Group, Resource: forbidden.Resource}, forbidden.Name, forbidden.Err)
	}
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return err
	}
	return apierrors.NewForbidden(q.kind.gr, in.Called(), err)
}

// undecided reports whether err says that something is broken, or too busy, which says
// nothing about the request, however the plugin has worded it.
func undecided(err error) bool {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		code := status.Status().Code
		return code >= http.StatusInternalServerError || code == http.StatusTooManyRequests
	}
	for _, broken := range []error{
		storage.ErrFull, storage.ErrClosed, storage.ErrDamaged, storage.ErrCompacted, storage.ErrFuture,
		context.Canceled, context.DeadlineExceeded, io.ErrUnexpectedEOF, budget.ErrExceeded,
	} {
		if errors.Is(err, broken) {
			return true
		}
	}
	var network net.Error
	var system syscall.Errno
	return errors.As(err, &network) || errors.As(err, &system)
}

// admissionRequest describes the request to admission plugins.
func (q *request) admissionRequest(op admission.Operation, obj, old runtime.Object, dryRun bool) *admission.Request {
	in := &admission.Request{
		Operation:   op,
		Resource:    admission.GroupVersionResource(q.kind.gvr),
		Kind:        admission.GroupVersionKind(q.bodyKind()),
		Subresource: q.info.Subresource,
		Namespace:   q.info.Namespace,
		Name:        q.info.Name,
		User:        q.user,
		DryRun:      dryRun,
		Options:     q.options,
		Warn:        q.warn,
		Annotate:    q.annotate,
		Equivalents: q.conversions(old),
		Waited:      q.waited,
	}
	if q.audited() {
		in.AnnotateBody = q.annotate
	}
	if obj != nil { // or else it would be no nil
		in.Object = obj
	}
	if old != nil {
		in.OldObject = old
	}
	return in
}
