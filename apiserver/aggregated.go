package apiserver

import (
	"net/http"

	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// serveAggregated answers with all groups of /api or /apis in one document
// (https://kubernetes.io/docs/concepts/overview/kubernetes-api/#aggregated-discovery).
func (s *Server) serveAggregated(w http.ResponseWriter, r *http.Request, core bool) error {
	doc := &apidiscovery.APIGroupDiscoveryList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: "apidiscovery.k8s.io/v2"},
		Items:    []apidiscovery.APIGroupDiscovery{},
	}
	for _, g := range s.groups {
		if (g.name == "") == core {
			doc.Items = append(doc.Items, s.groupDiscovery(g))
		}
	}
	const media = mediaJSON + ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	return s.writeTagged(w, r, media, doc)
}

func (s *Server) groupDiscovery(g *group) apidiscovery.APIGroupDiscovery {
	entry := apidiscovery.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: g.name}}
	for _, v := range g.versions {
		version := apidiscovery.APIVersionDiscovery{Version: v, Freshness: apidiscovery.DiscoveryFreshnessCurrent}
		for _, k := range s.kindsOf(g.name, v) {
			version.Resources = append(version.Resources, k.discovery())
		}
		entry.Versions = append(entry.Versions, version)
	}
	return entry
}

func (k *kind) discovery() apidiscovery.APIResourceDiscovery {
	entry := apidiscovery.APIResourceDiscovery{
		Resource: k.Plural, SingularResource: k.Singular, ShortNames: k.ShortNames,
		Categories: k.Categories, Verbs: k.Verbs,
		ResponseKind: discoveryKind(k.gvk), Scope: apidiscovery.ScopeCluster,
	}
	if k.Namespaced {
		entry.Scope = apidiscovery.ScopeNamespace
	}
	for i := range k.Subresources {
		sub := &k.Subresources[i]
		entry.Subresources = append(entry.Subresources, apidiscovery.APISubresourceDiscovery{
			Subresource: sub.Name, ResponseKind: discoveryKind(k.subKind(sub)), Verbs: sub.Verbs,
		})
	}
	return entry
}

func discoveryKind(gvk schema.GroupVersionKind) *metav1.GroupVersionKind {
	return &metav1.GroupVersionKind{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind}
}
