package controllerset

import (
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/kinds/kind"
	"github.com/planekit/planekit/localcache"
	"github.com/planekit/planekit/plane/caches"
	"github.com/planekit/planekit/reconcile/controllers/garbage"
	"github.com/planekit/planekit/reconcile/controllers/quota"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// customObjects reports the objects of custom resources.
type customObjects struct{ custom *caches.Custom }

func (c customObjects) Synced() <-chan struct{} { return c.custom.Objects.Synced() }

func (c customObjects) Subscribe(handle func(old, new metav1.Object)) localcache.Subscription {
	object := func(o *caches.CustomObject) metav1.Object {
		if o == nil {
			return nil
		}
		return o
	}
	return c.custom.Objects.Subscribe(func(old, new *caches.CustomObject) { handle(object(old), object(new)) })
}

// collected describes custom resources to a garbage collector that acts by api.
type collected struct {
	customObjects
	api *client.Client
}

var _ garbage.Custom = collected{}

// KindOf implements [garbage.Custom].
func (c collected) KindOf(object metav1.Object) (schema.GroupVersionKind, bool) {
	k := object.(*caches.CustomObject).Kind
	return k.GroupVersionKind, k.Namespaced
}

// Find implements [garbage.Custom].
func (c collected) Find(group, name string) (garbage.Kind, bool) {
	k, ok := c.custom.Find(group, name)
	if !ok {
		return garbage.Kind{}, false
	}
	return garbage.NewCustomKind(k.GroupVersionKind, k.Namespaced, func(namespace, name string) (metav1.Object, bool) {
		return c.custom.Get(k.Resource(), namespace, name)
	}, client.For(c.api, kind.Define(kind.Kind[*metav1.PartialObjectMetadata]{
		Group: k.Group, Version: k.Version, Kind: k.Kind, Plural: k.Plural, Namespaced: k.Namespaced,
	}))), true
}

// counted describes custom resources to the controller of resource quota.
type counted struct{ customObjects }

var _ quota.Custom = counted{}

// ResourceOf implements [quota.Custom].
func (c counted) ResourceOf(object metav1.Object) schema.GroupResource {
	return object.(*caches.CustomObject).Kind.Resource()
}

// Resources implements [quota.Custom].
func (c counted) Resources() quota.Resources { return customNames{c.custom} }

// customNames are the names of custom resources.
type customNames struct{ custom *caches.Custom }

// Get implements [localcache.Getter].
func (c customNames) Get(name string) (string, bool) {
	_, ok := c.custom.Kinds.Get(name)
	return name, ok
}

// Synced implements [localcache.Subscriber].
func (c customNames) Synced() <-chan struct{} { return c.custom.Kinds.Synced() }

// Subscribe implements [localcache.Subscriber].
func (c customNames) Subscribe(handle func(old, new string)) localcache.Subscription {
	name := func(k *caches.CustomKind) string {
		if k == nil {
			return ""
		}
		return k.Resource().String()
	}
	return c.custom.Kinds.Subscribe(func(old, new *caches.CustomKind) { handle(name(old), name(new)) })
}
