package garbage

import (
	"context"
	"errors"
	"fmt"
	"net/http"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/reconcile"
	"github.com/planekit/planekit/reconcile/controllers"
	"github.com/planekit/planekit/reconcile/controllers/internal/loop"
	"github.com/planekit/planekit/reconcile/controllers/owner"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Kind is one kind of object that may own other objects or be owned. [NewKind] makes it.
type Kind struct {
	GroupVersionKind schema.GroupVersionKind
	// Namespaced reports whether objects of the kind are in namespaces.
	Namespaced bool
	// Changes reports the changes of the cache. Absent objects are nil.
	Changes localcache.Subscriber[metav1.Object]
	// Cached reads an object from the cache.
	Cached func(namespace, name string) (metav1.Object, bool)
	// Get reads an object from the API, not from a cache.
	Get    func(ctx context.Context, namespace, name string) (metav1.Object, error)
	Delete func(ctx context.Context, namespace, name string, options metav1.DeleteOptions) error
	// Patch sends a JSON merge patch.
	Patch func(ctx context.Context, namespace, name string, data []byte) error
}

// Writer reads, patches and deletes objects of one kind.
type Writer[T any] interface {
	Get(ctx context.Context, namespace, name string) (T, error)
	controllers.Deleter
	controllers.Patcher[T]
}

// NewKind returns the Kind of a typed cache and writer.
func NewKind[T metav1.Object](kind schema.GroupVersionKind, namespaced bool, cache localcache.Cache[T], writer Writer[T]) Kind {
	k := NewCustomKind(kind, namespaced, func(namespace, name string) (metav1.Object, bool) {
		t, ok := cache.Get(localcache.Key(namespace, name))
		return loop.Object(t), ok
	}, writer)
	k.Changes = loop.Objects[T]{Cache: cache}
	return k
}

// NewCustomKind returns a Kind of [Custom]. cached reads an object from a cache.
func NewCustomKind[T metav1.Object](kind schema.GroupVersionKind, namespaced bool, cached func(namespace, name string) (metav1.Object, bool), writer Writer[T]) Kind {
	return Kind{
		GroupVersionKind: kind,
		Namespaced:       namespaced,
		Cached:           cached,
		Get: func(ctx context.Context, namespace, name string) (metav1.Object, error) {
			t, err := writer.Get(ctx, namespace, name)
			return loop.Object(t), err
		},
		Delete: writer.Delete,
		Patch: func(ctx context.Context, namespace, name string, data []byte) error {
			_, err := writer.Patch(ctx, namespace, name, types.MergePatchType, data)
			return err
		},
	}
}

// Custom are kinds that come and go while a collector runs.
type Custom interface {
	// Subscriber reports the changes of the objects of all the kinds. An object whose kind goes is
	// reported as deleted. Absent objects are nil.
	localcache.Subscriber[metav1.Object]
	// KindOf returns the kind of an object that has been reported, and whether such objects are in
	// namespaces.
	KindOf(object metav1.Object) (kind schema.GroupVersionKind, namespaced bool)
	// Find returns a kind that there is now. Its Changes may be nil.
	Find(group, kind string) (Kind, bool)
}

// Config configures a Collector. Kinds is required.
type Config struct {
	// Kinds are all kinds that may own or be owned. An object with an owner of any other kind is
	// never deleted.
	Kinds []Kind
	// Custom has further kinds, which come and go. Nil means none.
	Custom Custom
	// Events records Event objects about owners in another namespace. Nil discards them.
	Events controllers.Events
	// Workers is the number of objects processed concurrently. Zero means 20.
	Workers int
	// Metrics receives the measurements of the queue and the workers. Nil means none.
	Metrics controllers.Metrics
	// Log receives failures. The zero Logger discards them.
	Log logr.Logger
}

// Collector deletes objects whose owners are all deleted. For objects deleted with the foreground
// policy it deletes what they own first; with the orphan policy, it removes the owner references to
// them.
//
// It looks for an owner that is in no cache in the API before it deletes anything because of it,
// once for all its dependents. If that owner exists, it asks again, with backoff, until a cache has
// it. It never asks for owners that are in a cache.
type Collector struct {
	*reconcile.Controller[string]
	kinds  []Kind
	custom Custom // nil without
	graph  *graph
	events controllers.Events
	// gone holds owners that are not where a dependent says they are. told holds the pairs of a
	// dependent and an owner in another namespace that an Event object was about.
	gone recentSet[ownerPlace]
	told recentSet[[2]types.UID]
}

const defaultGarbageWorkers = 20 // as the garbage collector of Kubernetes

// New returns a collector, or an error if config lacks a required field. It starts nothing.
func New(config Config) (*Collector, error) {
	if len(config.Kinds) == 0 {
		return nil, errors.New("garbage: Config: no Kinds")
	}
	if config.Workers == 0 {
		config.Workers = defaultGarbageWorkers
	}
	c := &Collector{kinds: config.Kinds, custom: config.Custom, events: config.Events}
	if c.events == nil {
		c.events = controllers.NoEvents{}
	}
	var err error
	if c.Controller, err = loop.New(loop.Config{Name: "garbagecollector", Workers: config.Workers, Log: config.Log, Metrics: config.Metrics}, c.reconcile); err != nil {
		return nil, err
	}
	c.graph = newGraph(func(uid types.UID) { c.Enqueue(string(uid)) }, c.isAt)
	for i, kind := range config.Kinds {
		if kind.GroupVersionKind.Empty() || kind.Changes == nil || kind.Cached == nil || kind.Get == nil || kind.Delete == nil || kind.Patch == nil {
			return nil, fmt.Errorf("garbage: Config: kind %d (%s) is incomplete", i, kind.GroupVersionKind.Kind)
		}
		reconcile.WatchFunc(c.Controller, kind.Changes, func(old, new metav1.Object) { c.graph.change(i, old, new) })
	}
	if c.custom != nil {
		reconcile.WatchFunc(c.Controller, c.custom, c.customChanged)
	}
	return c, nil
}

// customKind is the number of all kinds of Custom.
const customKind = -1

// customChanged applies a change of an object of a kind that may go. Its dependents must find that it has gone
// also when the API has no such kind any more.
func (c *Collector) customChanged(old, new metav1.Object) {
	if old != nil && (new == nil || old.GetUID() != new.GetUID()) && len(c.graph.owned(old.GetUID())) > 0 {
		kind, _ := c.custom.KindOf(old)
		c.gone.add(ownerPlace{kind.Group, kind.Kind, old.GetNamespace(), old.GetName(), old.GetUID()})
	}
	c.graph.change(customKind, old, new)
}

// eventTarget returns a reference to object for an Event object.
func eventTarget(kind schema.GroupVersionKind, object metav1.Object) *metav1.PartialObjectMetadata {
	target := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Namespace: object.GetNamespace(), Name: object.GetName(), UID: object.GetUID(), ResourceVersion: object.GetResourceVersion(),
	}}
	target.SetGroupVersionKind(kind)
	return target
}

// ownerText formats an owner as Kubernetes does.
func ownerText(dependent metav1.Object, owner *metav1.OwnerReference) string {
	return fmt.Sprintf("[%s/%s, namespace: %s, name: %s, uid: %s]", owner.APIVersion, owner.Kind, dependent.GetNamespace(), owner.Name, owner.UID)
}

// kindOf returns the kind of an owner, if there is such a kind now.
func (c *Collector) kindOf(ref *metav1.OwnerReference) (*Kind, bool) {
	for i := range c.kinds {
		if gvk := c.kinds[i].GroupVersionKind; owner.IsKind(ref, gvk.Group, gvk.Kind) {
			return &c.kinds[i], true
		}
	}
	if c.custom == nil {
		return nil, false
	}
	version, err := schema.ParseGroupVersion(ref.APIVersion)
	if err != nil {
		return nil, false
	}
	kind, ok := c.custom.Find(version.Group, ref.Kind)
	return &kind, ok
}

// describe returns the kind of v, and whether such objects are in namespaces.
func (c *Collector) describe(v node) (kind schema.GroupVersionKind, namespaced bool) {
	if v.kind == customKind {
		return c.custom.KindOf(v.object)
	}
	return c.kinds[v.kind].GroupVersionKind, c.kinds[v.kind].Namespaced
}

// errNoKind is the error of a write of an object whose kind has gone.
var errNoKind = apierrors.NewGenericServerResponse(http.StatusNotFound, "", schema.GroupResource{}, "", "the kind has gone", 0, false)

// writer returns the kind by which v is written.
func (c *Collector) writer(v node) (*Kind, error) {
	if v.kind != customKind {
		return &c.kinds[v.kind], nil
	}
	gvk, _ := c.custom.KindOf(v.object)
	kind, ok := c.custom.Find(gvk.Group, gvk.Kind)
	if !ok {
		return nil, errNoKind
	}
	return &kind, nil
}
