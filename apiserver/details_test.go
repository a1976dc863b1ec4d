package apiserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/apiserver/internal/reply"
	"github.com/planekit/planekit/apiserver/internal/wire"
	"github.com/planekit/planekit/storage"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestDetails: errors have details where kube-apiserver's have them, and each 404 has them, because kubectl debug reads them
// without looking.
func TestDetails(t *testing.T) {
	bare := []string{"wrapped", "bad request", "unauthorized", "expired", "too large", "too many, no time", "compacted", "closed", "not acceptable", "media type",
		"a bare status", "a webhook's"}
	gr := schema.GroupResource{Resource: "pods"}
	for name, err := range map[string]error{
		"any":               errors.New("broken"),
		"wrapped":           fmt.Errorf("update: %w", apierrors.NewBadRequest("no")),
		"bad request":       apierrors.NewBadRequest("no"),
		"unauthorized":      apierrors.NewUnauthorized("Unauthorized"),
		"forbidden":         apierrors.NewForbidden(gr, "web", errors.New("no")),
		"not found":         apierrors.NewNotFound(gr, "web"),
		"not served":        notServed(),
		"method":            apierrors.NewMethodNotSupported(gr, "patch"),
		"exists":            apierrors.NewAlreadyExists(gr, "web"),
		"conflict":          apierrors.NewConflict(gr, "web", errModified),
		"expired":           apierrors.NewResourceExpired("expired"),
		"invalid":           apierrors.NewInvalid(schema.GroupKind{Kind: "Pod"}, "web", field.ErrorList{}),
		"too large":         &http.MaxBytesError{Limit: 1},
		"too many":          apierrors.NewTooManyRequests("later", 1),
		"too many, no time": apierrors.NewTooManyRequestsError("later"),
		"compacted":         storage.ErrCompacted,
		"closed":            storage.ErrClosed,
		"deadline":          context.DeadlineExceeded,
		"cancelled":         context.Canceled,
		"not acceptable":    statusError(http.StatusNotAcceptable, metav1.StatusReasonNotAcceptable, "no"),
		"media type":        statusError(http.StatusUnsupportedMediaType, metav1.StatusReasonUnsupportedMediaType, "no"),
		"a bare status":     &apierrors.StatusError{ErrStatus: metav1.Status{Code: 418}},
		"a webhook's":       &apierrors.StatusError{ErrStatus: metav1.Status{Code: 400, Message: "denied"}},
	} {
		detailed := !slices.Contains(bare, name)
		if status := toStatus(err); (status.Details != nil) != detailed || status.Code < 400 || status.Status != metav1.StatusFailure {
			t.Errorf("%s: toStatus(%v) = %+v, want details: %v", name, err, status, detailed)
		}
		for _, media := range []string{wire.JSON, wire.Proto} {
			p := &responder{reply.Writer{Codec: wire.NewCodec(), Log: logr.Discard()}}
			r, answer := httptest.NewRequest("GET", "/", nil), httptest.NewRecorder()
			r.Header.Set("Accept", media)
			p.writeError(answer, r, err)
			if media == wire.Proto {
				var envelope runtime.Unknown
				var status metav1.Status
				if err := errors.Join(envelope.Unmarshal(answer.Body.Bytes()[4:]), status.Unmarshal(envelope.Raw)); err != nil || (status.Details != nil) != detailed {
					t.Errorf("%s: in protobuf %+v, %v, want details: %v", name, status, err, detailed)
				}
				continue
			}
			var fields map[string]json.RawMessage
			if err := json.Unmarshal(answer.Body.Bytes(), &fields); err != nil || (len(fields["details"]) > 1) != detailed {
				t.Errorf("%s: in JSON %s, %v, want details: %v", name, answer.Body, err, detailed)
			}
		}
	}
}
