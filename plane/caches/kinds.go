package caches

import (
	"fmt"
	"slices"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/informer"
	"github.com/planekit/planekit/kinds/kind"
	"github.com/planekit/planekit/reconcile/controllers/garbage"
	"github.com/planekit/planekit/reconcile/controllers/quota"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// maker makes Caches.
type maker struct {
	*Caches
	api *client.Client
	log logr.Logger
	// unseen are the built-in resources that have no cache yet.
	unseen []apiserver.Resource
}

// addKind makes the cache of a kind, of all its objects unless source has fewer, and its row of
// Kinds.
func addKind[T client.Object](m *maker, to **informer.Informer[T], k kind.Kind[T], source informer.Source[T]) error {
	at := slices.IndexFunc(m.unseen, func(r apiserver.Resource) bool { return r.Group == k.Group && r.Plural == k.Plural })
	if at < 0 {
		return fmt.Errorf("caches: the API server has no %s", k.GroupResource())
	}
	m.unseen = slices.Delete(m.unseen, at, at+1)
	if source == nil {
		source = client.For(m.api, k)
	}
	cache, err := Add(&m.Group, k.Plural, source, m.log)
	if err != nil {
		return err
	}
	*to = cache
	if slices.Contains(uncollected, k.GroupResource()) {
		return nil
	}
	m.Kinds = append(m.Kinds, Kind{
		GroupVersionKind: k.GVK(), Plural: k.Plural, Namespaced: k.Namespaced,
		Garbage: func(api *client.Client) garbage.Kind {
			return garbage.NewKind(k.GVK(), k.Namespaced, cache, client.For(api, k))
		},
		Quota: func() quota.Kind { return quota.NewKind(k.GroupResource(), cache) },
	})
	return nil
}

// addMetadata adds caches of the metadata of all kinds that have no cache yet.
func (m *maker) addMetadata() error {
	for _, r := range slices.Clone(m.unseen) {
		k := kind.Define(kind.Kind[*metav1.PartialObjectMetadata]{
			Group: r.Group, Version: r.Version, Kind: r.Kind, Plural: r.Plural, Namespaced: r.Namespaced,
		})
		if slices.Contains(uncollected, k.GroupResource()) {
			continue
		}
		var cache *informer.Informer[*metav1.PartialObjectMetadata]
		if err := addKind(m, &cache, k, nil); err != nil {
			return err
		}
	}
	return nil
}
