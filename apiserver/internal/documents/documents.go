// Package documents answers what an API server serves: discovery, in documents for each group and
// version or in one for all, and OpenAPI in version 2 and 3.
//
//	d := documents.New(catalog, replies, "v1.36.3")
//	err := d.ServeDiscovery(w, r, []string{"apis", "apps", "v1"})
//	err = d.ServeOpenAPI(w, r, []string{"v3", "apis/apps/v1"})
//
// A [Catalog] describes the resources, as data. Errors are the client's; after one, nothing has been
// written. OpenAPI documents are made at the first request for each and never change.
package documents

import (
	"reflect"
	"sync"

	"github.com/planekit/planekit/apiserver/internal/openapi"
	"github.com/planekit/planekit/apiserver/internal/reply"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A Catalog knows which groups, versions and resources there are. Its methods are called by many
// goroutines, and its results are not changed.
type Catalog interface {
	// OwnGroups returns the groups that this server itself serves, always the same.
	OwnGroups() []*Group
	// Groups returns the current groups of this and of other servers.
	Groups() []*Group
	// Resources returns what this server serves of a version of a group, by plural name.
	Resources(group, version string) []Resource
	// Others returns the versions that other servers serve.
	Others() map[schema.GroupVersion]Other
}

// Group is an API group as discovery shows it, versions in the order given.
type Group struct {
	Name     string
	Versions []string
}

// Path returns the path at which a version of the group is served.
func (g *Group) Path(version string) string {
	if g.Name == "" {
		return "/api/" + version
	}
	return "/apis/" + g.Name + "/" + version
}

// Resource describes a resource in one version.
type Resource struct {
	Kind                          schema.GroupVersionKind
	Plural, Singular              string
	Namespaced                    bool
	Verbs, ShortNames, Categories []string
	// New returns an empty object. NewList returns an empty list; it is nil for a resource without
	// lists.
	New, NewList func() runtime.Object
	Subresources []Subresource
}

// Subresource describes a subresource.
type Subresource struct {
	Name  string
	Kind  schema.GroupVersionKind
	Verbs []string
	// New returns an empty body. It is nil if no type describes what is behind the subresource.
	New func() runtime.Object
}

// Other describes a version of a group that another server serves.
type Other struct {
	// Resources lists the resources and subresources, as an APIResourceList does.
	Resources []metav1.APIResource
	// Stale reports that the other server does not answer at the moment.
	Stale bool
	// OpenAPIHash is the hash of the version's OpenAPI v3 document; empty means no document.
	OpenAPIHash string
}

// Documents are the documents about the resources of a catalog.
type Documents struct {
	catalog Catalog
	replies *reply.Writer
	version string // of the server

	// v3 has the OpenAPI v3 documents by the path of the group version without its first slash.
	v3       map[string]func() (document, error)
	v2, v2PB func() (document, error)
}

type document struct {
	data []byte
	hash string
}

// New returns the documents about catalog of a server of the given version.
func New(catalog Catalog, replies *reply.Writer, version string) *Documents {
	d := &Documents{catalog: catalog, replies: replies, version: version, v3: map[string]func() (document, error){}}
	for _, g := range catalog.OwnGroups() {
		for _, v := range g.Versions {
			d.v3[g.Path(v)[1:]] = sync.OnceValues(func() (document, error) { return d.buildV3(g, v) })
		}
	}
	d.v2 = sync.OnceValues(d.buildV2)
	d.v2PB = sync.OnceValues(func() (document, error) {
		doc, err := d.v2()
		if err != nil {
			return document{}, err
		}
		data, err := openapi.Protobuf(doc.data)
		return document{data, reply.Digest(data)}, err
	})
	return d
}

// OpenAPI returns resources as OpenAPI describes them.
func OpenAPI(resources []Resource) []openapi.Resource {
	var all []openapi.Resource
	for i := range resources {
		all = append(all, resources[i].openAPI())
	}
	return all
}

func (r *Resource) openAPI() openapi.Resource {
	gv := r.Kind.GroupVersion()
	g := Group{Name: gv.Group}
	out := openapi.Resource{
		Path: g.Path(gv.Version), Plural: r.Plural, Namespaced: r.Namespaced, Verbs: r.Verbs,
		Kind: openapi.Kind(r.Kind), Type: structOf(r.New),
	}
	if r.NewList != nil {
		out.List = structOf(r.NewList)
	}
	for i := range r.Subresources {
		sub := &r.Subresources[i]
		if sub.New == nil {
			continue
		}
		out.Subs = append(out.Subs, openapi.Sub{Name: sub.Name, Verbs: sub.Verbs, Kind: openapi.Kind(sub.Kind), Type: structOf(sub.New)})
	}
	return out
}

func structOf(empty func() runtime.Object) reflect.Type { return reflect.TypeOf(empty()).Elem() }
