package apiserver

import (
	"cmp"
	"net/http"
	"strings"

	"github.com/planekit/planekit/apiserver/internal/wire"
	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// discover tells what is served, below /api and /apis: the old way, document
// by document, or aggregated in one.
func (d *documents) discover(w http.ResponseWriter, r *http.Request, segments []string) error {
	core := segments[0] == "api"
	aggregates := len(segments) == 1
	out, err := wire.Negotiate(r, wire.Accepts{Proto: true, Groups: aggregates})
	if err != nil {
		return err
	}
	if aggregates {
		w.Header().Set("Vary", "Accept")
	}
	var doc runtime.Object
	switch {
	case out.Shape == wire.Groups:
		return d.serveAggregated(w, r, core)
	case aggregates && core:
		doc = d.catalog.coreVersions()
	case aggregates:
		doc = d.catalog.groupList()
	case core && len(segments) == 2:
		doc = d.catalog.resourceList("", segments[1])
	case !core && len(segments) == 2:
		if g := d.catalog.group(segments[1]); g != nil {
			entry := apiGroup(g)
			entry.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
			doc = &entry
		}
	case !core && len(segments) == 3:
		doc = d.catalog.resourceList(segments[1], segments[2])
	}
	if isNil(doc) {
		return notServed()
	}
	d.responder.write(w, r, http.StatusOK, out, doc)
	return nil
}

func isNil(doc runtime.Object) bool {
	list, ok := doc.(*metav1.APIResourceList)
	return doc == nil || ok && list == nil
}

func (t *catalog) coreVersions() *metav1.APIVersions {
	doc := &metav1.APIVersions{
		TypeMeta:                   metav1.TypeMeta{Kind: "APIVersions"},
		Versions:                   []string{},
		ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{},
	}
	for _, g := range t.groups {
		if g.name == "" {
			doc.Versions = g.versions
		}
	}
	return doc
}

func (t *catalog) groupList() *metav1.APIGroupList {
	doc := &metav1.APIGroupList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{},
	}
	for _, g := range t.allGroups() {
		if g.name != "" {
			doc.Groups = append(doc.Groups, apiGroup(g))
		}
	}
	return doc
}

func apiGroup(g *group) metav1.APIGroup {
	entry := metav1.APIGroup{Name: g.name}
	for _, v := range g.versions {
		entry.Versions = append(entry.Versions, metav1.GroupVersionForDiscovery{GroupVersion: g.name + "/" + v, Version: v})
	}
	entry.PreferredVersion = entry.Versions[0]
	return entry
}

// resourceList is nil where the group version is not served.
func (t *catalog) resourceList(name, version string) *metav1.APIResourceList {
	kinds := t.kindsOf(name, version)
	if len(kinds) == 0 {
		return nil
	}
	doc := &metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
		GroupVersion: kinds[0].gvk.GroupVersion().String(),
	}
	for _, k := range kinds {
		doc.APIResources = append(doc.APIResources, metav1.APIResource{
			Name: k.Plural, SingularName: k.Singular, Namespaced: k.Namespaced, Kind: k.Kind,
			Verbs: k.Verbs, ShortNames: k.ShortNames, Categories: k.Categories,
		})
		for i := range k.subresources {
			sub := &k.subresources[i]
			entry := metav1.APIResource{
				Name: k.Plural + "/" + sub.name, Namespaced: k.Namespaced, Verbs: sub.verbs,
			}
			gvk := k.subKind(sub)
			entry.Kind = gvk.Kind
			if gvk.GroupVersion() != k.gvk.GroupVersion() {
				entry.Group, entry.Version = gvk.Group, gvk.Version
			}
			doc.APIResources = append(doc.APIResources, entry)
		}
	}
	return doc
}

// serveAggregated answers with all groups of /api or /apis in one document
// (https://kubernetes.io/docs/concepts/overview/kubernetes-api/#aggregated-discovery).
func (d *documents) serveAggregated(w http.ResponseWriter, r *http.Request, core bool) error {
	doc := &apidiscovery.APIGroupDiscoveryList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: "apidiscovery.k8s.io/v2"},
		Items:    []apidiscovery.APIGroupDiscovery{},
	}
	others := d.catalog.others()
	for _, g := range d.catalog.allGroups() {
		if (g.name == "") == core {
			doc.Items = append(doc.Items, d.catalog.groupDiscovery(g, others))
		}
	}
	const media = wire.JSON + ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	return d.responder.writeTagged(w, r, media, doc)
}

func (t *catalog) groupDiscovery(g *group, others map[schema.GroupVersion]AggregatedVersion) apidiscovery.APIGroupDiscovery {
	entry := apidiscovery.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: g.name}}
	for _, v := range g.versions {
		if other, ok := others[schema.GroupVersion{Group: g.name, Version: v}]; ok {
			entry.Versions = append(entry.Versions, otherDiscovery(other))
			continue
		}
		version := apidiscovery.APIVersionDiscovery{Version: v, Freshness: apidiscovery.DiscoveryFreshnessCurrent}
		for _, k := range t.kindsOf(g.name, v) {
			version.Resources = append(version.Resources, k.discovery())
		}
		entry.Versions = append(entry.Versions, version)
	}
	return entry
}

func (k *servedKind) discovery() apidiscovery.APIResourceDiscovery {
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
			Subresource: sub.name, ResponseKind: discoveryKind(k.subKind(sub)), Verbs: sub.verbs,
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
