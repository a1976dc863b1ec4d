package apiserver

import (
	"net/url"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/apis/meta/internalversion"
	listvalidation "k8s.io/apimachinery/pkg/apis/meta/internalversion/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// decodeQuery reads the query parameters that an options type has, and checks
// those of a list or watch. Parameters which it does not have are ignored, as in
// Kubernetes.
func decodeQuery(query url.Values, into any) error {
	if err := readQuery(query, into); err != nil {
		return err
	}
	if !utf8.ValidString(query.Get("fieldManager")) {
		return badRequest("fieldManager is not valid UTF-8")
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
		return invalidOptions("ListOptions", listvalidation.ValidateListOptions(checked, true))
	}
	return nil
}

func readQuery(query url.Values, into any) error {
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
		return badRequest("%v", err)
	}
	return nil
}
