package requestline

import (
	"net/url"
	"unicode/utf8"

	"github.com/planekit/planekit/apiserver/internal/wire"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	listvalidation "k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Options reads the query parameters that an options type has, and checks
// those of a list or watch. Parameters which it does not have are ignored, as in
// Kubernetes.
func Options(query url.Values, into any) error {
	if err := ReadOptions(query, into); err != nil {
		return err
	}
	if !utf8.ValidString(query.Get("fieldManager")) {
		return wire.BadRequest("fieldManager is not valid UTF-8")
	}
	if o, ok := into.(*metav1.ListOptions); ok {
		checked := &internalversion.ListOptions{
			Watch: o.Watch, Continue: o.Continue, SendInitialEvents: o.SendInitialEvents,
			ResourceVersion: o.ResourceVersion, ResourceVersionMatch: o.ResourceVersionMatch,
		}
		if o.Watch && o.SendInitialEvents == nil && o.ResourceVersionMatch == "" && (o.ResourceVersion == "" || o.ResourceVersion == "0") {
			// Such a watch begins with what there is, as if it had asked for it.
			checked.SendInitialEvents, checked.ResourceVersionMatch = new(true), metav1.ResourceVersionMatchNotOlderThan
		}
		return Invalid("ListOptions", listvalidation.ValidateListOptions(checked, true))
	}
	return nil
}

// ReadOptions reads the parameters and does not check what they mean together.
func ReadOptions(query url.Values, into any) error {
	var err error
	switch o := into.(type) {
	case *metav1.GetOptions:
		err = metav1.Convert_url_Values_To_v1_GetOptions(&query, o, nil)
	case *metav1.ListOptions:
		err = metav1.Convert_url_Values_To_v1_ListOptions(&query, o, nil)
	case *metav1.CreateOptions:
		err = metav1.Convert_url_Values_To_v1_CreateOptions(&query, o, nil)
	case *metav1.UpdateOptions:
		err = metav1.Convert_url_Values_To_v1_UpdateOptions(&query, o, nil)
	case *metav1.PatchOptions:
		err = metav1.Convert_url_Values_To_v1_PatchOptions(&query, o, nil)
	case *metav1.DeleteOptions:
		err = metav1.Convert_url_Values_To_v1_DeleteOptions(&query, o, nil)
	}
	if err != nil {
		return wire.BadRequest("%v", err)
	}
	return nil
}

// Invalid returns errs as one API error about the options, nil if there are none.
func Invalid(kind string, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(schema.GroupKind{Group: "meta.k8s.io", Kind: kind}, "", errs)
}
