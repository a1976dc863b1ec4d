package webhook

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/internal/rules"
	"github.com/planekit/planekit/authn/user"
	admissionapi "k8s.io/api/admission/v1"
	authentication "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// question builds the reviews for one request. Its parts are built on first use and shared by all
// webhooks.
type question struct {
	r     *admission.Request
	asked *admissionapi.AdmissionRequest // without its objects
	// object and old are the encoded objects. object is cleared after a change.
	object, old []byte
}

// request returns the description of the request without its objects.
func (q *question) request() (*admissionapi.AdmissionRequest, error) {
	if q.asked != nil {
		return q.asked, nil
	}
	r := q.r
	options, err := encode(completeOptions(r), metav1.SchemeGroupVersion.WithKind(optionsKind(r)))
	if err != nil {
		return nil, fmt.Errorf("encode the options: %w", err)
	}
	kind, resource, dryRun := metav1.GroupVersionKind(r.Kind), metav1.GroupVersionResource(r.Resource), r.DryRun
	q.asked = &admissionapi.AdmissionRequest{
		Kind:               kind,
		Resource:           resource,
		SubResource:        r.Subresource,
		RequestKind:        &kind,
		RequestResource:    &resource,
		RequestSubResource: r.Subresource,
		Name:               r.Name,
		Namespace:          rules.NamespaceOf(r),
		Operation:          admissionapi.Operation(r.Operation),
		UserInfo:           userInfo(r.User),
		DryRun:             &dryRun,
		Options:            runtime.RawExtension{Raw: options},
	}
	return q.asked, nil
}

// review returns the encoded review.
func (q *question) review(uid types.UID) ([]byte, error) {
	if err := q.complete(); err != nil {
		return nil, err
	}
	request := *q.asked
	request.UID = uid
	request.Object.Raw, request.OldObject.Raw = q.object, q.old
	return json.Marshal(&admissionapi.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionapi.SchemeGroupVersion.String(), Kind: "AdmissionReview"},
		Request:  &request,
	})
}

// complete builds the missing parts. After it, review is safe for concurrent use.
func (q *question) complete() (err error) {
	if _, err := q.request(); err != nil {
		return err
	}
	kind := schema.GroupVersionKind(q.r.Kind)
	if q.object == nil {
		if q.object, err = encode(q.r.Object, kind); err != nil {
			return fmt.Errorf("encode the object: %w", err)
		}
	}
	if q.old == nil {
		if q.old, err = encode(q.r.OldObject, kind); err != nil {
			return fmt.Errorf("encode the old object: %w", err)
		}
	}
	return nil
}

// encode returns v as JSON, with kind as its type if v does not contain one.
func encode(v any, kind schema.GroupVersionKind) ([]byte, error) {
	if o, ok := v.(runtime.Object); ok && o.GetObjectKind().GroupVersionKind().Kind == "" {
		o = o.DeepCopyObject()
		o.GetObjectKind().SetGroupVersionKind(kind)
		v = o
	}
	return json.Marshal(v)
}

// completeOptions returns the options of r as Kubernetes passes them to admission, where a patch
// has become a create or an update.
func completeOptions(r *admission.Request) any {
	o, ok := r.Options.(*metav1.PatchOptions)
	switch {
	case !ok:
		return r.Options
	case r.Operation == admission.Create:
		return &metav1.CreateOptions{DryRun: o.DryRun, FieldManager: o.FieldManager, FieldValidation: o.FieldValidation}
	}
	return &metav1.UpdateOptions{DryRun: o.DryRun, FieldManager: o.FieldManager, FieldValidation: o.FieldValidation}
}

func optionsKind(r *admission.Request) string {
	if o := completeOptions(r); o != nil {
		return reflect.Indirect(reflect.ValueOf(o)).Type().Name()
	}
	return ""
}

func userInfo(u *user.Info) authentication.UserInfo {
	if u == nil {
		return authentication.UserInfo{}
	}
	info := authentication.UserInfo{Username: u.Name, UID: u.UID, Groups: u.Groups}
	if len(u.Extra) > 0 {
		info.Extra = make(map[string]authentication.ExtraValue, len(u.Extra))
		for key, values := range u.Extra {
			info.Extra[key] = values
		}
	}
	return info
}
