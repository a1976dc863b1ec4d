package certificates

import (
	"context"
	"slices"
	"time"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/column"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/kinds"
	certificatesv1 "k8s.io/api/certificates/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

type request = certificatesv1.CertificateSigningRequest

// decisions are the conditions that only the approval subresource adds or changes.
var decisions = []certificatesv1.RequestConditionType{certificatesv1.CertificateApproved, certificatesv1.CertificateDenied}

// CertificateSigningRequests returns the resource of the kind CertificateSigningRequest. Its spec
// names the user of the request that created it and cannot change. The subresource approval changes
// the conditions alone; status changes the certificate and the conditions other than Approved and
// Denied.
func CertificateSigningRequests() apiserver.Resource {
	spec, status := certificatesv1.CertificateSigningRequestSpec{}.SwaggerDoc(), certificatesv1.CertificateSigningRequestStatus{}.SwaggerDoc()
	strategy := define.Strategy[*request]{
		Update: func(r, old *request) {
			old.Spec.DeepCopyInto(&r.Spec)
			old.Status.DeepCopyInto(&r.Status)
		},
		Validate: func(r *request) field.ErrorList { return checkRequest(r, tolerated(r, nil)) },
		ValidateUpdate: func(r, old *request) field.ErrorList {
			return checkRequestUpdate(r, old, changes{})
		},
	}.Erase()
	strategy.PrepareForCreate = prepareRequest
	// Any name that a path can hold is valid.
	strategy.ValidateName = func(string, bool) []string { return nil }
	return apiserver.For(kinds.CertificateSigningRequests, apiserver.Resource{
		Strategy: strategy,
		Columns: []apiserver.Column{
			column.Age[*request](),
			column.Text("SignerName", spec["signerName"], func(r *request) string { return column.OrNone(r.Spec.SignerName) }),
			column.Text("Requestor", spec["request"], func(r *request) string { return r.Spec.Username }),
			column.Text("RequestedDuration", spec["expirationSeconds"], requestedDuration),
			column.Text("Condition", status["conditions"], conditionText),
		},
		Fields: define.Fields[*request]{
			"spec.signerName": func(r *request) string { return r.Spec.SignerName },
		}.Erase(),
		Subresources: []apiserver.Subresource{
			define.Status(define.Strategy[*request]{
				Update: updateRequestStatus,
				ValidateUpdate: func(r, old *request) field.ErrorList {
					return checkRequestUpdate(r, old, changes{certificate: true})
				},
			}, "spec", "status.conditions"),
			apiserver.Status{
				Name:   "approval",
				Resets: []string{"spec", "status.certificate"},
				Strategy: define.Strategy[*request]{
					Update: updateApproval,
					ValidateUpdate: func(r, old *request) field.ErrorList {
						return checkRequestUpdate(r, old, changes{decisions: true})
					},
				}.Erase(),
			},
		},
		Resets: []string{"spec", "status"},
	})
}

// prepareRequest writes the user of the request into a new object, which is not approved yet.
func prepareRequest(ctx context.Context, obj runtime.Object) {
	r := obj.(*request)
	r.Spec.Username, r.Spec.UID, r.Spec.Groups, r.Spec.Extra = "", "", nil, nil
	if u, ok := user.FromContext(ctx); ok {
		r.Spec.Username, r.Spec.UID, r.Spec.Groups = u.Name, u.UID, slices.Clone(u.Groups)
		for key, values := range u.Extra {
			if r.Spec.Extra == nil {
				r.Spec.Extra = map[string]certificatesv1.ExtraValue{}
			}
			r.Spec.Extra[key] = slices.Clone(values)
		}
	}
	r.Status = certificatesv1.CertificateSigningRequestStatus{}
}

// updateRequestStatus keeps the conditions Approved and Denied, unless their number changed, which
// validation refuses.
func updateRequestStatus(r, old *request) {
	old.Spec.DeepCopyInto(&r.Spec)
	for _, kind := range decisions {
		now, before := indices(r, kind), indices(old, kind)
		if len(now) != len(before) {
			continue
		}
		for i, at := range before {
			old.Status.Conditions[at].DeepCopyInto(&r.Status.Conditions[now[i]])
		}
	}
	completeTimes(r, old)
}

// updateApproval changes the conditions alone.
func updateApproval(r, old *request) {
	completeTimes(r, old)
	conditions := r.Status.Conditions
	old.Spec.DeepCopyInto(&r.Spec)
	old.Status.DeepCopyInto(&r.Status)
	r.Status.Conditions = conditions
}

// indices returns where a request has conditions of a type.
func indices(r *request, kind certificatesv1.RequestConditionType) (out []int) {
	for i := range r.Status.Conditions {
		if r.Status.Conditions[i].Type == kind {
			out = append(out, i)
		}
	}
	return out
}

// completeTimes fills the times that conditions lack. A condition that had the same status before
// keeps the time of its transition.
func completeTimes(r, old *request) {
	now := metav1.NewTime(time.Now())
	for i := range r.Status.Conditions {
		c := &r.Status.Conditions[i]
		if c.LastUpdateTime.IsZero() {
			c.LastUpdateTime = now
		}
		if !c.LastTransitionTime.IsZero() {
			continue
		}
		c.LastTransitionTime = now
		for _, before := range old.Status.Conditions {
			if before.Type == c.Type && before.Status == c.Status && !before.LastTransitionTime.IsZero() {
				c.LastTransitionTime = before.LastTransitionTime
				break
			}
		}
	}
}

func requestedDuration(r *request) string {
	if r.Spec.ExpirationSeconds == nil {
		return column.None
	}
	return duration.HumanDuration(time.Duration(*r.Spec.ExpirationSeconds) * time.Second)
}

// conditionText returns what kubectl shows as the state of a request.
func conditionText(r *request) string {
	has := func(kind certificatesv1.RequestConditionType) bool { return len(indices(r, kind)) > 0 }
	text := "Pending"
	switch {
	case has(certificatesv1.CertificateDenied):
		text = "Denied"
	case has(certificatesv1.CertificateApproved):
		text = "Approved"
	}
	if has(certificatesv1.CertificateFailed) {
		text += ",Failed"
	}
	if len(r.Status.Certificate) > 0 {
		text += ",Issued"
	}
	return text
}
