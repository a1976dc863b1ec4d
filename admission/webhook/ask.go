package webhook

import (
	"context"
	"errors"
	"fmt"

	"github.com/planekit/planekit/admission"
	admissionapi "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/apimachinery/pkg/util/uuid"
	"k8s.io/apimachinery/pkg/util/validation"
)

// failure means that a webhook could not be called or has given no valid answer. The webhook's
// failurePolicy decides about the request.
type failure struct {
	webhook string
	err     error
}

func (f *failure) Error() string {
	return fmt.Sprintf("failed calling webhook %q: %v", f.webhook, f.err)
}
func (f *failure) Unwrap() error { return f.err }

//lint:ignore ST1005 they are kube-apiserver's words
var errNoEffects = errors.New("Webhook SideEffects is nil")

// ask returns the answer of h. It fails with a *failure if h gave no answer, and with another error
// if the request is refused without a call.
func (h *hook) ask(ctx context.Context, q *question) (*admissionapi.AdmissionResponse, error) {
	if q.r.DryRun {
		switch {
		case h.effects == nil:
			return nil, &failure{h.name, errNoEffects}
		case *h.effects != registration.SideEffectClassNone && *h.effects != registration.SideEffectClassNoneOnDryRun:
			return nil, apierrors.NewBadRequest(fmt.Sprintf("admission webhook %q does not support dry run", h.name))
		}
	}
	if h.version == "" {
		return nil, &failure{h.name, errors.New("could not create admission objects: webhook does not accept known AdmissionReview versions (v1, v1beta1)")}
	}
	uid := uuid.NewUUID()
	body, err := q.review(h.version, uid)
	if err != nil {
		return nil, &failure{h.name, fmt.Errorf("could not create admission objects: %w", err)}
	}
	ctx, cancel := context.WithTimeout(ctx, h.timeout)
	defer cancel()
	reply, err := h.caller.post(ctx, body)
	if err != nil {
		return nil, &failure{h.name, fmt.Errorf("failed to call webhook: %w", err)}
	}
	response, err := readReview(reply, h.version, uid, h.mutates)
	if err != nil {
		return nil, &failure{h.name, fmt.Errorf("received invalid webhook response: %w", err)}
	}
	return response, nil
}

// readReview returns the response in a review after checking it as far as possible without the
// object.
func readReview(data []byte, version string, uid types.UID, mutates bool) (*admissionapi.AdmissionResponse, error) {
	var review admissionapi.AdmissionReview
	if err := utiljson.Unmarshal(data, &review); err != nil {
		return nil, err
	}
	if version == v1beta1 {
		return olderResponse(review.Response, mutates)
	}
	want, got := admissionapi.SchemeGroupVersion.WithKind("AdmissionReview"), review.GroupVersionKind()
	r := review.Response
	switch {
	case r == nil:
		return nil, errors.New("webhook response was absent")
	case r.UID != uid:
		return nil, fmt.Errorf("expected response.uid=%q, got %q", uid, r.UID)
	case got != want:
		return nil, fmt.Errorf("expected webhook response of %v, got %v", want, got)
	case !mutates && len(r.Patch) > 0:
		return nil, errors.New("validating webhook may not return response.patch")
	case !mutates && r.PatchType != nil:
		return nil, errors.New("validating webhook may not return response.patchType")
	case len(r.Patch) > 0 && r.PatchType == nil:
		return nil, errors.New("webhook returned response.patch but not response.patchType")
	case len(r.Patch) == 0 && r.PatchType != nil:
		return nil, errors.New("webhook returned response.patchType but not response.patch")
	case r.PatchType != nil && *r.PatchType == "":
		return nil, fmt.Errorf("webhook returned invalid response.patchType of %q", *r.PatchType)
	case r.PatchType != nil && *r.PatchType != admissionapi.PatchTypeJSONPatch:
		return nil, fmt.Errorf("unsupported patch type %q", *r.PatchType)
	}
	return r, nil
}

// olderResponse returns r, of v1beta1, as it would be in v1. Its type, its UID and the type of its patch may be missing.
func olderResponse(r *admissionapi.AdmissionResponse, mutates bool) (*admissionapi.AdmissionResponse, error) {
	if r == nil {
		return nil, errors.New("webhook response was absent")
	}
	r.PatchType = nil
	switch {
	case !mutates:
		r.Patch = nil
	case len(r.Patch) > 0:
		r.PatchType = new(admissionapi.PatchTypeJSONPatch)
	}
	return r, nil
}

// maxWarnings bounds the size of the warnings of one webhook, in bytes, because they become
// headers.
const maxWarnings = 4096

// tell adds the warnings and audit annotations of h to the request. Annotations with invalid keys
// and excess warnings are dropped.
func (h *hook) tell(r *admission.Request, response *admissionapi.AdmissionResponse) {
	if r.Annotate != nil {
		for key, value := range response.AuditAnnotations {
			if key = h.name + "/" + key; len(validation.IsQualifiedName(key)) == 0 {
				r.Annotate(key, value)
			}
		}
	}
	if r.Warn != nil {
		room := maxWarnings
		for _, text := range response.Warnings {
			if room -= len(text); room < 0 {
				return
			}
			r.Warn(text)
		}
	}
}

// denied returns h's refusal for the client. A code that is not an error becomes 400, as in
// kube-apiserver.
func (h *hook) denied(result *metav1.Status) error {
	if result == nil {
		result = &metav1.Status{}
	}
	status := *result
	if status.Code < 400 || status.Code > 599 {
		status.Code = 400
	}
	status.Status = metav1.StatusFailure
	by := fmt.Sprintf("admission webhook %q denied the request", h.name)
	switch {
	case status.Message != "":
		status.Message = by + ": " + status.Message
	case status.Reason != "":
		status.Message = by + ": " + string(status.Reason)
	default:
		status.Message = by + " without explanation"
	}
	return &apierrors.StatusError{ErrStatus: status}
}

// outOfTime returns the error for a request that has ended meanwhile.
func outOfTime() error {
	return apierrors.NewTimeoutError("request did not complete within requested timeout", 0)
}

// forgiven reports whether the request continues despite err. If so, it adds an audit annotation
// under key.
func (p *Plugin) forgiven(ctx context.Context, h *hook, r *admission.Request, err error, key string) bool {
	var failed *failure
	if !errors.As(err, &failed) {
		return false
	}
	if !h.ignore {
		p.config.Log.Error(err, "webhook failed, the request is refused", "configuration", h.configuration, "webhook", h.name)
		return false
	}
	p.config.Log.Error(err, "webhook failed, the request goes on without it", "configuration", h.configuration, "webhook", h.name)
	// After a cancellation by the client, any error may be a consequence.
	if r.Annotate != nil && !errors.Is(err, context.Canceled) && !errors.Is(ctx.Err(), context.Canceled) {
		r.Annotate(key, h.name)
	}
	return true
}

// refusal returns the error that the client gets for err.
func refusal(err error) error {
	var failed *failure
	if errors.As(err, &failed) {
		return apierrors.NewInternalError(err)
	}
	return err
}
