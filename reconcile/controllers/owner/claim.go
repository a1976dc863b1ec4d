package owner

import (
	"context"
	"fmt"
	"slices"

	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/internal/loop"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Claims is the plan of which objects belong to a controller.
type Claims[T metav1.Object] struct {
	// Mine match the selector and are owned.
	Mine []T
	// Adopt match the selector and have no controller.
	Adopt []T
	// Release are owned and do not match the selector.
	Release []T
}

// PlanClaims decides from the objects that owner controls and the orphans of its namespace. An
// owner that is being deleted adopts and releases nothing. An owned object that is being deleted is
// released as well: its deletion may be waiting for that.
func PlanClaims[T metav1.Object](owner metav1.Object, selector labels.Selector, owned, orphans []T) Claims[T] {
	var c Claims[T]
	for _, object := range owned {
		if selector.Matches(labels.Set(object.GetLabels())) {
			c.Mine = append(c.Mine, object)
		} else if owner.GetDeletionTimestamp() == nil {
			c.Release = append(c.Release, object)
		}
	}
	if owner.GetDeletionTimestamp() != nil {
		return c
	}
	for _, object := range orphans {
		if object.GetDeletionTimestamp() == nil && selector.Matches(labels.Set(object.GetLabels())) {
			c.Adopt = append(c.Adopt, object)
		}
	}
	return c
}

// Claim carries out c and reports whether it had anything to do. Before it adopts, it calls confirm,
// which must fail if the cached owner is not the newest version: deleting an owner may orphan objects on
// purpose, and those must not be given back to it. An object that cannot be claimed does not keep
// other objects from being claimed. Claim calls wrote with the revision of each write.
func Claim[T metav1.Object](ctx context.Context, c Claims[T], owner metav1.Object, kind schema.GroupVersionKind,
	patcher controllers.Patcher[T], confirm func(context.Context) error, wrote func(revision string)) (bool, error) {
	var failures []error
	patch := func(verb string, object T, references []metav1.OwnerReference) {
		changed, err := patcher.Patch(ctx, object.GetNamespace(), object.GetName(), types.MergePatchType, ReferencesPatch(object, references))
		switch {
		case err == nil:
			wrote(changed.GetResourceVersion())
		case apierrors.IsNotFound(err):
			failures = append(failures, loop.ErrStale) // the cache is about to show the deletion
		default:
			failures = append(failures, fmt.Errorf("%s %s: %w", verb, localcache.KeyOf(object), err))
		}
	}
	for _, object := range c.Release {
		patch("release", object, Without(object.GetOwnerReferences(), owner.GetUID()))
	}
	if len(c.Adopt) > 0 {
		if err := confirm(ctx); err != nil {
			return true, loop.JoinReal(append(failures, err))
		}
	}
	for _, object := range c.Adopt {
		patch("adopt", object, append(slices.Clone(object.GetOwnerReferences()), *metav1.NewControllerRef(owner, kind)))
	}
	return len(c.Release)+len(c.Adopt) > 0, loop.JoinReal(failures)
}
