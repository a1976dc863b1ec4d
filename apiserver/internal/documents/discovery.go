package documents

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"strings"

	"github.com/planekit/planekit/apiserver/internal/wire"
	apidiscovery "k8s.io/api/apidiscovery/v2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// ServeDiscovery answers what is served, below /api and /apis: document by document, or aggregated in
// one.
func (d *Documents) ServeDiscovery(w http.ResponseWriter, r *http.Request, segments []string) error {
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
		doc = d.coreVersions()
	case aggregates:
		doc = d.groupList()
	case core && len(segments) == 2:
		doc = d.resourceList("", segments[1])
	case !core && len(segments) == 2:
		if g := d.group(segments[1]); g != nil {
			entry := apiGroup(g)
			entry.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
			doc = &entry
		}
	case !core && len(segments) == 3:
		doc = d.resourceList(segments[1], segments[2])
	}
	if isNil(doc) {
		if !core && len(segments) > 1 && d.group(segments[1]) == nil {
			return wire.ErrNoPath
		}
		return wire.NotServed()
	}
	d.replies.Object(w, r, http.StatusOK, out, doc)
	return nil
}

func isNil(doc runtime.Object) bool {
	list, ok := doc.(*metav1.APIResourceList)
	return doc == nil || ok && list == nil
}

func (d *Documents) coreVersions() *metav1.APIVersions {
	doc := &metav1.APIVersions{
		TypeMeta:                   metav1.TypeMeta{Kind: "APIVersions"},
		Versions:                   []string{},
		ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{},
	}
	for _, g := range d.catalog.OwnGroups() {
		if g.Name == "" {
			doc.Versions = g.Versions
		}
	}
	return doc
}

func (d *Documents) groupList() *metav1.APIGroupList {
	doc := &metav1.APIGroupList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{},
	}
	for _, g := range d.catalog.Groups() {
		if g.Name != "" {
			doc.Groups = append(doc.Groups, apiGroup(g))
		}
	}
	return doc
}

func apiGroup(g *Group) metav1.APIGroup {
	entry := metav1.APIGroup{Name: g.Name}
	for _, v := range g.Versions {
		entry.Versions = append(entry.Versions, metav1.GroupVersionForDiscovery{GroupVersion: g.Name + "/" + v, Version: v})
	}
	entry.PreferredVersion = entry.Versions[0]
	return entry
}

// resourceList is nil where the group version is not served.
func (d *Documents) resourceList(name, version string) *metav1.APIResourceList {
	resources := d.catalog.Resources(name, version)
	if len(resources) == 0 {
		return nil
	}
	doc := &metav1.APIResourceList{
		TypeMeta:     metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"},
		GroupVersion: resources[0].Kind.GroupVersion().String(),
	}
	for i := range resources {
		k := &resources[i]
		doc.APIResources = append(doc.APIResources, metav1.APIResource{
			Name: k.Plural, SingularName: k.Singular, Namespaced: k.Namespaced, Kind: k.Kind.Kind,
			Verbs: k.Verbs, ShortNames: k.ShortNames, Categories: k.Categories,
			StorageVersionHash: storageVersionHash(k.Stored),
		})
		for j := range k.Subresources {
			sub := &k.Subresources[j]
			entry := metav1.APIResource{
				Name: k.Plural + "/" + sub.Name, Namespaced: k.Namespaced, Verbs: sub.Verbs, Kind: sub.Kind.Kind,
			}
			if sub.Kind.GroupVersion() != k.Kind.GroupVersion() {
				entry.Group, entry.Version = sub.Kind.Group, sub.Kind.Version
			}
			doc.APIResources = append(doc.APIResources, entry)
		}
	}
	return doc
}

// storageVersionHash returns the text by which the migration of stored objects sees that a resource is stored in
// another version than before, as Kubernetes makes it; empty if nothing is stored.
func storageVersionHash(stored schema.GroupVersionKind) string {
	if stored.Empty() {
		return ""
	}
	hash := sha256.Sum256([]byte(stored.Group + "/" + stored.Version + "/" + stored.Kind))
	return base64.StdEncoding.EncodeToString(hash[:8])
}

// group returns the named group; nil if it is not served, or the core group.
func (d *Documents) group(name string) *Group {
	for _, g := range d.catalog.Groups() {
		if g.Name == name && name != "" {
			return g
		}
	}
	return nil
}

// serveAggregated answers with all groups of /api or /apis in one document
// (https://kubernetes.io/docs/concepts/overview/kubernetes-api/#aggregated-discovery).
func (d *Documents) serveAggregated(w http.ResponseWriter, r *http.Request, core bool) error {
	doc := &apidiscovery.APIGroupDiscoveryList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: "apidiscovery.k8s.io/v2"},
		Items:    []apidiscovery.APIGroupDiscovery{},
	}
	others := d.catalog.Others()
	for _, g := range d.catalog.Groups() {
		if (g.Name == "") == core {
			doc.Items = append(doc.Items, d.groupDiscovery(g, others))
		}
	}
	const media = wire.JSON + ";g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"
	return d.replies.Tagged(w, r, media, doc)
}

func (d *Documents) groupDiscovery(g *Group, others map[schema.GroupVersion]Other) apidiscovery.APIGroupDiscovery {
	entry := apidiscovery.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: g.Name}}
	for _, v := range g.Versions {
		gv := schema.GroupVersion{Group: g.Name, Version: v}
		if other, ok := others[gv]; ok {
			entry.Versions = append(entry.Versions, otherDiscovery(gv, other))
			continue
		}
		version := apidiscovery.APIVersionDiscovery{Version: v, Freshness: apidiscovery.DiscoveryFreshnessCurrent}
		resources := d.catalog.Resources(g.Name, v)
		for i := range resources {
			version.Resources = append(version.Resources, resources[i].discovery())
		}
		entry.Versions = append(entry.Versions, version)
	}
	return entry
}

func (r *Resource) discovery() apidiscovery.APIResourceDiscovery {
	entry := apidiscovery.APIResourceDiscovery{
		Resource: r.Plural, SingularResource: r.Singular, ShortNames: r.ShortNames,
		Categories: r.Categories, Verbs: r.Verbs,
		ResponseKind: discoveryKind(r.Kind), Scope: apidiscovery.ScopeCluster,
	}
	if r.Namespaced {
		entry.Scope = apidiscovery.ScopeNamespace
	}
	for i := range r.Subresources {
		sub := &r.Subresources[i]
		entry.Subresources = append(entry.Subresources, apidiscovery.APISubresourceDiscovery{
			Subresource: sub.Name, ResponseKind: discoveryKind(sub.Kind), Verbs: sub.Verbs,
		})
	}
	return entry
}

func discoveryKind(gvk schema.GroupVersionKind) *metav1.GroupVersionKind {
	return &metav1.GroupVersionKind{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind}
}

// otherDiscovery translates what another server has answered in the older form, about gv.
func otherDiscovery(gv schema.GroupVersion, o Other) apidiscovery.APIVersionDiscovery {
	version := apidiscovery.APIVersionDiscovery{Version: gv.Version, Freshness: apidiscovery.DiscoveryFreshnessCurrent}
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
			ResponseKind: discoveryKind(kindIn(gv, r)), Scope: apidiscovery.ScopeCluster,
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
			Subresource: name, ResponseKind: discoveryKind(kindIn(gv, r)), Verbs: r.Verbs,
		})
	}
	return version
}

// kindIn returns the kind of r, which is of the document's group version gv unless it has another.
func kindIn(gv schema.GroupVersion, r metav1.APIResource) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: cmp.Or(r.Group, gv.Group), Version: cmp.Or(r.Version, gv.Version), Kind: r.Kind}
}
