package apiserver

import (
	"net/url"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// decodeQuery reads the query parameters that an options type has. Parameters
// which it does not have are ignored, as in Kubernetes.
func decodeQuery(query url.Values, into any) error {
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
		return badRequest("invalid query: %v", err)
	}
	return nil
}
