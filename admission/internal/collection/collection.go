// Package collection recognizes updates that garbage collection makes, which a check of permissions lets
// pass.
package collection

import (
	"github.com/planekit/planekit/admission"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Only reports whether r updates nothing of object but its owners and finalizers.
func Only[T interface {
	comparable
	metav1.Object
	DeepCopy() T
}](r *admission.Request, object T) bool {
	var none T
	old, ok := r.OldObject.(T)
	if !ok || old == none || r.Operation != admission.Update {
		return false
	}
	same := object.DeepCopy()
	same.SetOwnerReferences(old.GetOwnerReferences())
	same.SetFinalizers(old.GetFinalizers())
	same.SetManagedFields(old.GetManagedFields())
	same.SetSelfLink(old.GetSelfLink())
	same.SetResourceVersion(old.GetResourceVersion())
	return equality.Semantic.DeepEqual(same, old)
}
