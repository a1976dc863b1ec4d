package apiserver

import (
	"cmp"
	"net/http"
	"strings"

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
	others := s.others()
	for _, g := range s.allGroups() {
		if (g.name == "") == core {
			doc.Items = append(doc.Items, s.groupDiscovery(g, others))
		}
	}
	const media = mediaJSON + ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	return s.writeTagged(w, r, media, doc)
}

func (s *Server) groupDiscovery(g *group, others map[schema.GroupVersion]AggregatedVersion) apidiscovery.APIGroupDiscovery {
	entry := apidiscovery.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: g.name}}
	for _, v := range g.versions {
		if other, ok := others[schema.GroupVersion{Group: g.name, Version: v}]; ok {
			entry.Versions = append(entry.Versions, otherDiscovery(other))
			continue
		}
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
	for i := range k.subresources {
		sub := &k.subresources[i]
		entry.Subresources = append(entry.Subresources, apidiscovery.APISubresourceDiscovery{
			Subresource: sub.Name, ResponseKind: discoveryKind(k.subKind(sub)), Verbs: sub.Verbs,
		})
	}
	return entry
}

func discoveryKind(gvk schema.GroupVersionKind) *metav1.GroupVersionKind {
	return &metav1.GroupVersionKind{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind}
}

// otherDiscovery says what another server has said in the older form.
func otherDiscovery(o AggregatedVersion) apidiscovery.APIVersionDiscovery {
	version := apidiscovery.APIVersionDiscovery{Version: o.Version, Freshness: apidiscovery.DiscoveryFreshnessCurrent}
	if o.Stale {
		version.Freshness = apidiscovery.DiscoveryFreshnessStale
	}
	places := map[string]int{}
	for _, r := range o.Resources {
		if strings.Contains(r.Name, "/") {
			continue
		}
		entry := apidiscovery.APIResourceDiscovery{
			Resource: r.Name, SingularResource: r.SingularName, ShortNames: r.ShortNames, Categories: r.Categories, Verbs: r.Verbs,
			ResponseKind: discoveryKind(kindIn(o, r)), Scope: apidiscovery.ScopeCluster,
		}
		if r.Namespaced {
			entry.Scope = apidiscovery.ScopeNamespace
		}
		places[r.Name] = len(version.Resources)
		version.Resources = append(version.Resources, entry)
	}
	for _, r := range o.Resources {
		parent, name, ok := strings.Cut(r.Name, "/")
		i, found := places[parent]
		if !ok || !found {
			continue
		}
		version.Resources[i].Subresources = append(version.Resources[i].Subresources, apidiscovery.APISubresourceDiscovery{
			Subresource: name, ResponseKind: discoveryKind(kindIn(o, r)), Verbs: r.Verbs,
		})
	}
	return version
}

// kindIn is the kind of r, which is of the document's group version unless it
// says otherwise.
func kindIn(o AggregatedVersion, r metav1.APIResource) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: cmp.Or(r.Group, o.Group), Version: cmp.Or(r.Version, o.Version), Kind: r.Kind}
}
