package wire

import (
	"fmt"
	"net/http"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// MaxBody bounds request bodies, in bytes, as in kube-apiserver.
const MaxBody = 3 << 20

// StatusError returns an API error with a code for which apimachinery has no constructor.
func StatusError(code int32, reason metav1.StatusReason, format string, args ...any) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: code, Reason: reason, Message: fmt.Sprintf(format, args...),
	}}
}

// NotServed returns Kubernetes' error for a resource that its group lacks.
func NotServed() error {
	return StatusError(http.StatusNotFound, metav1.StatusReasonNotFound, "the server could not find the requested resource")
}

// ErrNoPath is the error for a path below no API group of the server. As in Kubernetes, the answer is a
// text without a Status. A client then makes the Status, and puts into its message what it asked for.
var ErrNoPath = StatusError(http.StatusNotFound, metav1.StatusReasonNotFound, "404 page not found")

// BadRequest returns an API error with the code 400.
func BadRequest(format string, args ...any) error {
	return apierrors.NewBadRequest(fmt.Sprintf(format, args...))
}
