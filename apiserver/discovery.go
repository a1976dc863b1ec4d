package apiserver

import (
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// discover tells what is served, below /api and /apis: the old way, document
// by document, or aggregated in one.
func (s *Server) discover(w http.ResponseWriter, r *http.Request, segments []string) error {
	core := segments[0] == "api"
	aggregates := len(segments) == 1
	out, err := negotiate(r, accepts{proto: true, groups: aggregates})
	if err != nil {
		return err
	}
	if aggregates {
		w.Header().Set("Vary", "Accept")
	}
	var doc runtime.Object
	switch {
	case out.shape == asGroups:
		return s.serveAggregated(w, r, core)
	case aggregates && core:
		doc = s.coreVersions()
	case aggregates:
		doc = s.groupList()
	case core && len(segments) == 2:
		doc = s.resourceList("", segments[1])
	case !core && len(segments) == 2:
		if g := s.group(segments[1]); g != nil {
			entry := apiGroup(g)
			entry.TypeMeta = metav1.TypeMeta{Kind: "APIGroup", APIVersion: "v1"}
			doc = &entry
		}
	case !core && len(segments) == 3:
		doc = s.resourceList(segments[1], segments[2])
	}
	if isNil(doc) {
		return notServed()
	}
	s.write(w, r, http.StatusOK, out, doc)
	return nil
}

func isNil(doc runtime.Object) bool {
	list, ok := doc.(*metav1.APIResourceList)
	return doc == nil || ok && list == nil
}

func (s *Server) group(name string) *group {
	for _, g := range s.allGroups() {
		if g.name == name && name != "" {
			return g
		}
	}
	return nil
}

func (s *Server) coreVersions() *metav1.APIVersions {
	doc := &metav1.APIVersions{
		TypeMeta:                   metav1.TypeMeta{Kind: "APIVersions"},
		Versions:                   []string{},
		ServerAddressByClientCIDRs: []metav1.ServerAddressByClientCIDR{},
	}
	for _, g := range s.groups {
		if g.name == "" {
			doc.Versions = g.versions
		}
	}
	return doc
}

func (s *Server) groupList() *metav1.APIGroupList {
	doc := &metav1.APIGroupList{
		TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}, Groups: []metav1.APIGroup{},
	}
	for _, g := range s.allGroups() {
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

// kindsOf returns the kinds of a group version by plural name.
func (s *Server) kindsOf(name, version string) []*kind {
	var kinds []*kind
	for _, k := range s.kinds {
		if k.Group == name && k.Version == version {
			kinds = append(kinds, k)
		}
	}
	slices.SortFunc(kinds, func(a, b *kind) int { return strings.Compare(a.Plural, b.Plural) })
	return kinds
}

// resourceList is nil where the group version is not served.
func (s *Server) resourceList(name, version string) *metav1.APIResourceList {
	kinds := s.kindsOf(name, version)
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
				Name: k.Plural + "/" + sub.Name, Namespaced: k.Namespaced, Verbs: sub.Verbs,
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
