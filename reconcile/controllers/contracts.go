package controllers

import (
	"context"

	"github.com/planekit/planekit/localcache"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// ByController is the key function of an index: an object is found under the UID
// of the controller that owns it, or, if it has none, under [Orphans] of its
// namespace.
func ByController[T metav1.Object](object T) []types.UID {
	if owner := metav1.GetControllerOfNoCopy(object); owner != nil {
		return []types.UID{owner.UID}
	}
	return []types.UID{Orphans(object.GetNamespace())}
}

// Orphans is what stands for a UID for objects of a namespace that nobody
// controls. No UID has a slash.
func Orphans(namespace string) types.UID { return types.UID("orphans/" + namespace) }

// The writers. All take and return objects as the API does, with the errors of
// k8s.io/apimachinery/pkg/api/errors. They do not change their arguments.
type (
	// Creator creates objects.
	Creator[T any] interface {
		Create(ctx context.Context, object T) (T, error)
	}
	// Updater replaces objects, guarded by their resource version.
	Updater[T any] interface {
		Update(ctx context.Context, object T) (T, error)
	}
	// StatusUpdater replaces the status of objects, guarded by their resource
	// version.
	StatusUpdater[T any] interface {
		UpdateStatus(ctx context.Context, object T) (T, error)
	}
	// Deleter deletes objects.
	Deleter interface {
		Delete(ctx context.Context, namespace, name string, options metav1.DeleteOptions) error
	}
	// Patcher changes a part of an object. The controllers send JSON merge
	// patches only, guarded by the resource version in metadata.
	Patcher[T any] interface {
		Patch(ctx context.Context, namespace, name string, kind types.PatchType, data []byte, subresource ...string) (T, error)
	}
)

// Events tells users what happened to an object.
type Events interface {
	Event(object runtime.Object, eventtype, reason, message string)
}

type noEvents struct{}

func (noEvents) Event(runtime.Object, string, string, string) {}

// key names an object as caches do.
func key(object metav1.Object) string { return localcache.KeyOf(object) }
