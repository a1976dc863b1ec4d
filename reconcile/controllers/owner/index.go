package owner

import (
	"iter"
	"strings"

	"github.com/planekit/planekit/internal/selector"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ByController is the key function of an index of objects by the UID of the controller that owns
// them. Objects without a controller are found under [Orphans] of their namespace.
func ByController[T metav1.Object](object T) []types.UID {
	if controller := metav1.GetControllerOfNoCopy(object); controller != nil {
		return []types.UID{controller.UID}
	}
	return []types.UID{Orphans(object.GetNamespace())}
}

// Orphans returns the key under which [ByController] puts the objects of a namespace that have no
// controller. It is no UID: no UID has a slash.
func Orphans(namespace string) types.UID { return types.UID("orphans/" + namespace) }

// IsKind reports whether a reference is to an object of a group and kind, of any version.
func IsKind(reference *metav1.OwnerReference, group, kind string) bool {
	referenced, _, found := strings.Cut(reference.APIVersion, "/")
	if !found {
		referenced = ""
	}
	return reference.Kind == kind && referenced == group
}

// Controllers returns a key function for [reconcile.Watch] that enqueues the controllers of a group
// and kind that control the old or the new object.
func Controllers[T interface {
	comparable
	metav1.Object
}](group, kind string) func(old, new T) iter.Seq[string] {
	return reconcile.Owners(func(object T) []string {
		controller := metav1.GetControllerOfNoCopy(object)
		if controller == nil || !IsKind(controller, group, kind) {
			return nil
		}
		return []string{localcache.Key(object.GetNamespace(), controller.Name)}
	})
}

// Adopters yields the keys of the owners whose selector matches object. It yields none if object
// has a controller or is being deleted. An owner with an invalid selector adopts nothing.
func Adopters[O metav1.Object](object metav1.Object, owners iter.Seq[O], selectorOf func(O) *metav1.LabelSelector) iter.Seq[string] {
	return func(yield func(string) bool) {
		if metav1.GetControllerOfNoCopy(object) != nil || object.GetDeletionTimestamp() != nil {
			return
		}
		for o := range owners {
			if o.GetNamespace() != object.GetNamespace() || !selector.Matches(selectorOf(o), object.GetLabels()) {
				continue
			}
			if !yield(localcache.KeyOf(o)) {
				return
			}
		}
	}
}

// SameOrphan reports whether new had no controller before and its labels have not changed, so that
// a controller that did not adopt it before does not adopt it now.
func SameOrphan[T interface {
	comparable
	metav1.Object
}](old, new T) bool {
	var none T
	return old != none && metav1.GetControllerOfNoCopy(old) == nil && equality.Semantic.DeepEqual(old.GetLabels(), new.GetLabels())
}
