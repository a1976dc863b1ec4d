package controllers

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// GarbageKind is one kind of object that may own others or be owned. Make it
// with [NewGarbageKind].
type GarbageKind struct {
	GroupVersionKind schema.GroupVersionKind
	// Namespaced tells whether objects of the kind are in namespaces.
	Namespaced bool
	// Subscribe, Synced: as in [localcache.Cache]. Absent objects are nil.
	Subscribe func(func(old, new metav1.Object)) (stop func())
	Synced    <-chan struct{}
	// Cached reads an object from the local copy.
	Cached func(namespace, name string) (metav1.Object, bool)
	// Get reads an object from the API, not from a local copy.
	Get    func(ctx context.Context, namespace, name string) (metav1.Object, error)
	Delete func(ctx context.Context, namespace, name string, options metav1.DeleteOptions) error
	// Patch sends a JSON merge patch.
	Patch func(ctx context.Context, namespace, name string, data []byte) error
}

// GarbageWriter is how objects of one kind are read and removed.
type GarbageWriter[T any] interface {
	Get(ctx context.Context, namespace, name string) (T, error)
	Deleter
	Patcher[T]
}

// NewGarbageKind makes a GarbageKind of typed parts.
func NewGarbageKind[T interface {
	comparable
	metav1.Object
}](kind schema.GroupVersionKind, namespaced bool, cache localcache.Cache[T], writer GarbageWriter[T]) GarbageKind {
	var none T
	object := func(t T) metav1.Object {
		if t == none {
			return nil // and not an interface with nothing inside
		}
		return t
	}
	return GarbageKind{
		GroupVersionKind: kind,
		Namespaced:       namespaced,
		Subscribe: func(handle func(old, new metav1.Object)) (stop func()) {
			return cache.Subscribe(func(old, new T) { handle(object(old), object(new)) }).Stop
		},
		Synced: cache.Synced(),
		Cached: func(namespace, name string) (metav1.Object, bool) {
			t, ok := cache.Get(localcache.Key(namespace, name))
			return object(t), ok
		},
		Get: func(ctx context.Context, namespace, name string) (metav1.Object, error) {
			t, err := writer.Get(ctx, namespace, name)
			return object(t), err
		},
		Delete: writer.Delete,
		Patch: func(ctx context.Context, namespace, name string, data []byte) error {
			_, err := writer.Patch(ctx, namespace, name, types.MergePatchType, data)
			return err
		},
	}
}

// GarbageConfig joins a garbage collector to its surroundings.
type GarbageConfig struct {
	// Kinds are all kinds that matter. An object with an owner of any other kind
	// is never deleted.
	Kinds []GarbageKind
	// Events may be nil. It is told of owners that are in another namespace.
	Events Events
	// Workers is how many objects are worked on at a time. Zero is 20.
	Workers int
	Log     logr.Logger
}

// Garbage deletes objects whose owners are all gone. For objects which are
// deleted with the foreground policy it deletes what they own first; with the
// orphan policy, it takes the owner references to them off what they own.
//
// An owner that is in no local copy is looked for in the API before anything
// is deleted on its account, once for all that it owned. One that is there and
// in no copy is asked for again, with backoff, until a copy has it. Owners that
// are in a copy are never asked for.
type Garbage struct {
	*loop
	kinds  []GarbageKind
	graph  *graph
	events Events
	// gone are owners that are not where a dependent says they are; told are a
	// dependent and an owner of another namespace that an event was about.
	gone recentSet[ownerPlace]
	told recentSet[[2]types.UID]
}

const defaultGarbageWorkers = 20 // as the garbage collector of Kubernetes

// NewGarbage checks config. It starts nothing.
func NewGarbage(config GarbageConfig) (*Garbage, error) {
	if len(config.Kinds) == 0 {
		return nil, errors.New("controllers: GarbageConfig: no Kinds")
	}
	if config.Workers == 0 {
		config.Workers = defaultGarbageWorkers
	}
	c := &Garbage{kinds: config.Kinds, events: config.Events}
	if c.events == nil {
		c.events = noEvents{}
	}
	var err error
	if c.loop, err = newLoop("garbagecollector", config.Workers, config.Log, reconcile.Backoff{}, c.reconcile); err != nil {
		return nil, err
	}
	c.graph = newGraph(func(uid types.UID) { c.Enqueue(string(uid)) }, c.isAt)
	for i, kind := range config.Kinds {
		if kind.GroupVersionKind.Empty() || kind.Subscribe == nil || kind.Synced == nil || kind.Cached == nil || kind.Get == nil || kind.Delete == nil || kind.Patch == nil {
			return nil, fmt.Errorf("controllers: GarbageConfig: kind %d (%s) is incomplete", i, kind.GroupVersionKind.Kind)
		}
		c.subscriptions = append(c.subscriptions, func() func() {
			return kind.Subscribe(func(old, new metav1.Object) { c.graph.change(i, old, new) })
		})
		c.synced = append(c.synced, kind.Synced)
	}
	return c, nil
}

// eventTarget is what an event about object refers to.
func eventTarget(kind *GarbageKind, object metav1.Object) *metav1.PartialObjectMetadata {
	target := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(), ResourceVersion: object.GetResourceVersion(),
	}}
	target.SetGroupVersionKind(kind.GroupVersionKind)
	return target
}

// ownerText names an owner as Kubernetes does.
func ownerText(dependent metav1.Object, owner *metav1.OwnerReference) string {
	return fmt.Sprintf("[%s/%s, namespace: %s, name: %s, uid: %s]", owner.APIVersion, owner.Kind, dependent.GetNamespace(), owner.Name, owner.UID)
}

func (c *Garbage) kindOf(owner *metav1.OwnerReference) (*GarbageKind, bool) {
	for i := range c.kinds {
		if gvk := c.kinds[i].GroupVersionKind; isKind(owner, gvk.Group, gvk.Kind) {
			return &c.kinds[i], true
		}
	}
	return nil, false
}
