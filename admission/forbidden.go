package admission

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
)

// Forbidden words a refusal as Kubernetes does, `pods "web" is forbidden: ` and
// then the text of err, and makes it a 403. An object that has no name yet is
// called by its generateName.
func Forbidden(r *Request, err error) *apierrors.StatusError {
	name := r.Name
	if name == "" {
		name = "Unknown"
		if object, failed := meta.Accessor(r.Object); failed == nil {
			if n := object.GetName(); n != "" {
				name = n
			} else if n := object.GetGenerateName(); n != "" {
				name = n
			}
		}
	}
	return apierrors.NewForbidden(r.Resource.GroupResource(), name, err)
}
