package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/internal/rules"
	"github.com/planekit/planekit/authn/user"
	admissionapi "k8s.io/api/admission/v1"
	authentication "k8s.io/api/authentication/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// question builds the reviews for one request in one version. Its parts are built on first use and
// shared by all webhooks.
type question struct {
	// sent is the request of the client, and r the same in the version that webhooks are asked about.
	sent, r *admission.Request
	asked   *admissionapi.AdmissionRequest // without its objects
	// object and old are the encoded objects. object is cleared after a change.
	object, old []byte
	// stale means that the object of sent has changed since it was converted for r.
	stale bool
}

// questions holds the questions for one request: its own, and those in equivalent versions, each
// converted on first use.
type questions struct {
	own    question
	others []*question
	// mutates means that they are for mutating webhooks.
	mutates bool
}

func newQuestions(r *admission.Request, mutates bool) questions {
	return questions{own: question{sent: r, r: r}, mutates: mutates}
}

// as returns the question in a version.
func (a *questions) as(ctx context.Context, to admission.Equivalent) (*question, error) {
	sent := a.own.r
	if to == rules.Own(sent) {
		return &a.own, nil
	}
	i := slices.IndexFunc(a.others, func(q *question) bool { return rules.Own(q.r) == to })
	if i < 0 {
		r, err := rules.Convert(ctx, sent, to)
		if err != nil {
			return nil, a.unconvertible(err)
		}
		q := &question{sent: sent, r: r}
		a.others = append(a.others, q)
		return q, nil
	}
	q := a.others[i]
	if q.stale {
		if err := rules.ConvertObject(ctx, sent, q.r); err != nil {
			return nil, a.unconvertible(err)
		}
		q.stale = false
	}
	return q, nil
}

// unconvertible returns the error of a request that cannot be converted. For mutating webhooks,
// kube-apiserver says twice that it is internal.
func (a *questions) unconvertible(err error) error {
	if a.mutates {
		err = apierrors.NewInternalError(err)
	}
	return apierrors.NewInternalError(err)
}

// changed drops what was derived from the former object of the request. valid, if not nil, is the
// question whose object is the new one.
func (a *questions) changed(valid *question) {
	a.own.object = nil
	for _, q := range a.others {
		q.object, q.stale = nil, q != valid
	}
}

// replace makes object, of the version of q, the object of the request.
func (q *question) replace(ctx context.Context, object any) error {
	q.r.Object = object
	if q.r == q.sent {
		return nil
	}
	err := rules.Revert(ctx, q.sent, q.r)
	var status apierrors.APIStatus
	if err != nil && !errors.As(err, &status) {
		err = apierrors.NewInternalError(err)
	}
	return err
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
	kind, resource, dryRun := metav1.GroupVersionKind(q.sent.Kind), metav1.GroupVersionResource(q.sent.Resource), r.DryRun
	q.asked = &admissionapi.AdmissionRequest{
		Kind:               metav1.GroupVersionKind(r.Kind),
		Resource:           metav1.GroupVersionResource(r.Resource),
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

// review returns the encoded review in a version.
func (q *question) review(version string, uid types.UID) ([]byte, error) {
	if err := q.complete(); err != nil {
		return nil, err
	}
	request := *q.asked
	request.UID = uid
	request.Object.Raw, request.OldObject.Raw = q.object, q.old
	return json.Marshal(&admissionapi.AdmissionReview{
		TypeMeta: metav1.TypeMeta{APIVersion: admissionapi.GroupName + "/" + version, Kind: "AdmissionReview"},
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
// has become a create or an update, and an update that creates has become a create.
func completeOptions(r *admission.Request) any {
	var o metav1.UpdateOptions
	switch from := r.Options.(type) {
	case *metav1.PatchOptions:
		o.DryRun, o.FieldManager, o.FieldValidation = from.DryRun, from.FieldManager, from.FieldValidation
	case *metav1.UpdateOptions:
		o = *from
	default:
		return r.Options
	}
	if r.Operation == admission.Create {
		return &metav1.CreateOptions{DryRun: o.DryRun, FieldManager: o.FieldManager, FieldValidation: o.FieldValidation}
	}
	return &o
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
