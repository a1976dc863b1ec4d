package caches

import (
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/informer"
	"github.com/planekit/planekit/reconcile/controllers"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// maker makes Caches.
type maker struct {
	*Caches
	api *client.Client
	log logr.Logger
	// unseen are the built-in resources that have no cache yet.
	unseen []apiserver.Resource
}

// object is a pointer to an object of the API.
type object interface {
	comparable
	client.Object
}

// add makes the cache of a resource, of all its objects unless source has fewer, and
// its row of Kinds.
func add[T object](m *maker, to **informer.Informer[T], plural string, resource func(*client.Client) client.Resource[T], source informer.Source[T]) error {
	at := slices.IndexFunc(m.unseen, func(r apiserver.Resource) bool { return r.Plural == plural })
	if at < 0 {
		return fmt.Errorf("caches: the API server has no %s", plural)
	}
	r := m.unseen[at]
	m.unseen = slices.Delete(m.unseen, at, at+1)
	if source == nil {
		source = resource(m.api)
	}
	cache, err := Of(source, m.log.WithName(plural))
	if err != nil {
		return err
	}
	*to = cache
	m.starts = append(m.starts, start{plural, cache})
	if slices.Contains(uncollected, plural) {
		return nil
	}
	gvk := schema.GroupVersionKind{Group: r.Group, Version: r.Version, Kind: r.Kind}
	m.Kinds = append(m.Kinds, Kind{
		GroupVersionKind: gvk, Plural: plural, Namespaced: r.Namespaced,
		Garbage: func(api *client.Client) controllers.GarbageKind {
			return controllers.NewGarbageKind(gvk, r.Namespaced, cache, resource(api))
		},
		Quota: func() controllers.QuotaKind {
			return controllers.NewQuotaKind(schema.GroupResource{Group: r.Group, Resource: plural}, cache)
		},
	})
	return nil
}

// addMetadata adds caches of the metadata of all kinds that have no cache yet.
func (m *maker) addMetadata() error {
	for _, r := range slices.Clone(m.unseen) {
		if slices.Contains(uncollected, r.Plural) {
			continue
		}
		metadata := func(api *client.Client) client.Resource[*metav1.PartialObjectMetadata] {
			return client.For(api, client.Type[*metav1.PartialObjectMetadata]{
				Group: r.Group, Version: r.Version, Kind: r.Kind, Plural: r.Plural, Namespaced: r.Namespaced,
				New: func() *metav1.PartialObjectMetadata { return &metav1.PartialObjectMetadata{} },
			})
		}
		var cache *informer.Informer[*metav1.PartialObjectMetadata]
		if err := add(m, &cache, r.Plural, metadata, nil); err != nil {
			return err
		}
	}
	return nil
}
