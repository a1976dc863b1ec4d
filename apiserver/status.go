package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/planekit/planekit/apiserver/internal/wire"
	"github.com/planekit/planekit/internal/budget"
	"github.com/planekit/planekit/storage"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// errModified is Kubernetes' text for a stale resourceVersion.
var errModified = errors.New("the object has been modified; please apply your changes to the latest version and try again")

// reasonFull is the reason of a response with the code 507, for which Kubernetes has none.
const reasonFull metav1.StatusReason = "InsufficientStorage"

// toStatus turns any error into the API's form. It is the only place where
// that happens.
func toStatus(err error) metav1.Status {
	var status apierrors.APIStatus
	var tooLarge *http.MaxBytesError
	switch {
	case errors.As(err, &status):
	case errors.As(err, &tooLarge):
		status = apierrors.NewRequestEntityTooLargeError(fmt.Sprintf("limit is %d", tooLarge.Limit))
	case errors.Is(err, budget.ErrExceeded):
		status = apierrors.NewRequestEntityTooLargeError(err.Error())
	case errors.Is(err, storage.ErrCompacted):
		status = apierrors.NewResourceExpired("The resourceVersion for the provided watch is too old.")
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		status = apierrors.NewTimeoutError("request did not complete within the allotted timeout", 0)
	case errors.Is(err, storage.ErrFull):
		status = &apierrors.StatusError{ErrStatus: metav1.Status{
			Code: http.StatusInsufficientStorage, Reason: reasonFull, Message: "the server has no room to store the change: " + err.Error(),
		}}
	case errors.Is(err, storage.ErrClosed):
		status = apierrors.NewServiceUnavailable("storage is closed")
	default:
		status = apierrors.NewInternalError(err)
	}
	out := status.Status()
	out.TypeMeta = metav1.TypeMeta{Kind: "Status", APIVersion: "v1"}
	out.Status = metav1.StatusFailure
	if out.Details == nil && out.Reason == metav1.StatusReasonNotFound {
		out.Details = &metav1.StatusDetails{} // kubectl debug reads it unseen
	}
	if out.Code < 400 {
		out.Code = http.StatusInternalServerError
	}
	return out
}

// storageError names the object where the store said only what was wrong.
func storageError(err error, gr schema.GroupResource, name string) error {
	switch {
	case errors.Is(err, storage.ErrNotFound):
		return apierrors.NewNotFound(gr, name)
	case errors.Is(err, storage.ErrExists):
		return apierrors.NewAlreadyExists(gr, name)
	case errors.Is(err, storage.ErrConflict):
		return apierrors.NewConflict(gr, name, errModified)
	}
	return err
}

func statusError(code int32, reason metav1.StatusReason, format string, args ...any) error {
	return wire.StatusError(code, reason, format, args...)
}

func badRequest(format string, args ...any) error { return wire.BadRequest(format, args...) }

// notServed returns Kubernetes' error for a resource that its group lacks.
func notServed() error { return wire.NotServed() }

// writeError answers with err. Nothing may have been written before.
func (p *responder) writeError(w http.ResponseWriter, r *http.Request, err error) {
	status := toStatus(err)
	if status.Code >= http.StatusInternalServerError && r.Context().Err() == nil {
		p.Log.Error(err, "request failed", "method", r.Method, "path", r.URL.Path)
	}
	if w, ok := w.(*recorder); ok {
		w.status = &status
	}
	if status.Details != nil && status.Details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(status.Details.RetryAfterSeconds)))
	}
	if errors.Is(err, wire.ErrNoPath) {
		http.NotFound(w, r)
		return
	}
	out, negotiateErr := wire.Negotiate(r, wire.Accepts{Proto: true, CBOR: true})
	if negotiateErr != nil {
		out = wire.Output{Media: wire.JSON, Pretty: true}
	}
	p.Object(w, r, int(status.Code), out, &status)
}
