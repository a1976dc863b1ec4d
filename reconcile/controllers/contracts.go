package controllers

import (
	"context"

	"github.com/planekit/planekit/reconcile"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
)

// The readers and writers of objects. All take and return objects as the API does, with the errors
// of k8s.io/apimachinery/pkg/api/errors. They do not change their arguments.
type (
	// Getter reads an object from the API, not from a cache.
	Getter[T any] interface {
		Get(ctx context.Context, namespace, name string) (T, error)
	}
	// Creator creates objects.
	Creator[T any] interface {
		Create(ctx context.Context, object T) (T, error)
	}
	// Updater replaces objects. A write is refused if the resource version has changed.
	Updater[T any] interface {
		Update(ctx context.Context, object T) (T, error)
	}
	// StatusUpdater replaces the status of objects. A write is refused if the resource version
	// has changed.
	StatusUpdater[T any] interface {
		UpdateStatus(ctx context.Context, object T) (T, error)
	}
	// Deleter deletes objects.
	Deleter interface {
		Delete(ctx context.Context, namespace, name string, options metav1.DeleteOptions) error
	}
	// Patcher changes a part of an object. The controllers send JSON merge patches only, with the
	// resource version in metadata, so that a patch of a changed object is refused.
	Patcher[T any] interface {
		Patch(ctx context.Context, namespace, name string, kind types.PatchType, data []byte, subresource ...string) (T, error)
	}
)

// Events records Event objects about an object, for its users.
type Events interface {
	Event(object runtime.Object, eventtype, reason, message string)
}

// NoEvents discards all Event objects.
type NoEvents struct{}

// Event implements [Events].
func (NoEvents) Event(runtime.Object, string, string, string) {}

// Metrics provides the hooks through which a controller and its queue report measurements. Calls
// are concurrent. Package reconcile/metrics implements it for Prometheus.
type Metrics interface {
	// Queue returns the hooks of the queue of that name.
	Queue(name string) reconcile.QueueHooks
	// Controller returns the hooks of the controller of that name.
	Controller(name string, workers int) reconcile.Hooks
	// Watch reports the state of the queue until stop is called.
	Watch(name string, queue interface{ Stats() reconcile.QueueStats }) (stop func())
}

// ByNamespace is the key function of an index by namespace.
func ByNamespace[T metav1.Object](object T) []string { return []string{object.GetNamespace()} }
