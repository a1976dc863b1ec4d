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
	"slices"
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
	// OwnGroups returns the groups that this server itself serves, always the same ones.
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
	Kind schema.GroupVersionKind
	// Stored is the kind that objects are stored as, with its version; zero if none are.
	Stored                        schema.GroupVersionKind
	Plural, Singular              string
	Namespaced                    bool
	Verbs, ShortNames, Categories []string
	// New returns an empty object. NewList returns an empty list; it is nil for a resource without
	// lists.
	New, NewList func() runtime.Object
	ListKind     string
	// Schema describes the objects if their Go type does not; nil means that it does.
	Schema       *Schema
	Subresources []Subresource
}

// A Schema is the schema of a resource, as JSON for OpenAPI v3 and v2.
type Schema struct {
	Name   string
	V3, V2 func() ([]byte, error)
}

// Subresource describes a subresource.
type Subresource struct {
	Name  string
	Kind  schema.GroupVersionKind
	Verbs []string
	// New returns an empty body. It is nil if no type describes what is behind the subresource.
	New func() runtime.Object
	// Options returns an empty object whose fields are the parameters of the query, and Paths says that paths below
	// the subresource are served, if New is nil. Nil has no parameters.
	Options func() runtime.Object
	Paths   bool
	// Parent is set if bodies are objects of the resource.
	Parent bool
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
	v3       map[string]*versionDocument
	v2, v2PB func() (document, error)
}

// A versionDocument is the OpenAPI v3 document of a version of a group.
type versionDocument struct {
	build func() (document, error)
	hash  func() (string, error)
}

type document struct {
	data []byte
	hash string
}

// New returns the documents about catalog of a server of the given version.
func New(catalog Catalog, replies *reply.Writer, version string) *Documents {
	d := &Documents{catalog: catalog, replies: replies, version: version, v3: map[string]*versionDocument{}}
	d.add(func(*Group, string) *versionDocument { return nil })
	return d
}

// Next returns the documents about catalog, which is a later one of the same server. Those of versions
// of groups that have not changed are not built again.
func (d *Documents) Next(catalog Catalog, changed func(schema.GroupVersion) bool) *Documents {
	next := &Documents{catalog: catalog, replies: d.replies, version: d.version, v3: map[string]*versionDocument{}}
	next.add(func(g *Group, v string) *versionDocument {
		if changed(schema.GroupVersion{Group: g.Name, Version: v}) {
			return nil
		}
		return d.v3[g.Path(v)[1:]]
	})
	return next
}

// add adds the documents of all versions: what known returns, or if that is nil, one that is built when
// it is first asked for.
func (d *Documents) add(known func(g *Group, version string) *versionDocument) {
	for _, g := range d.catalog.OwnGroups() {
		for _, v := range g.Versions {
			doc := known(g, v)
			if doc == nil {
				doc = d.keep(g, v)
			}
			d.v3[g.Path(v)[1:]] = doc
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
}

// keep returns the document of a version, which is built once. There may be thousands of groups with given
// schemas, few of which anyone reads: of those, only the hash is kept, which the index of all versions shows.
func (d *Documents) keep(g *Group, version string) *versionDocument {
	resources := d.catalog.Resources(g.Name, version)
	build := func() (document, error) { return d.buildV3(g, version, resources) }
	given := slices.ContainsFunc(resources, func(r Resource) bool { return r.Schema != nil })
	if !given {
		build = sync.OnceValues(build)
	}
	return &versionDocument{build, sync.OnceValues(func() (string, error) {
		doc, err := build()
		return doc.hash, err
	})}
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
		Event: reflect.TypeFor[metav1.WatchEvent](),
		Path:  g.Path(gv.Version), Plural: r.Plural, Namespaced: r.Namespaced, Verbs: r.Verbs,
		Kind: openapi.Kind(r.Kind), ListKind: r.ListKind, Type: structOf(r.New),
	}
	if r.Schema != nil {
		out.Given = &openapi.Given{
			Name: r.Schema.Name, V3: r.Schema.V3, V2: r.Schema.V2,
			Metadata: reflect.TypeFor[metav1.ObjectMeta](), ListMetadata: reflect.TypeFor[metav1.ListMeta](),
		}
	}
	if r.NewList != nil {
		out.List = structOf(r.NewList)
	}
	for i := range r.Subresources {
		sub := &r.Subresources[i]
		if sub.New == nil {
			c := openapi.Connection{Name: sub.Name, Verbs: sub.Verbs, Kind: openapi.Kind(sub.Kind), Paths: sub.Paths}
			if sub.Options != nil {
				c.Options = structOf(sub.Options)
			}
			out.Connections = append(out.Connections, c)
			continue
		}
		one := openapi.Sub{Name: sub.Name, Verbs: sub.Verbs, Kind: openapi.Kind(sub.Kind), Type: structOf(sub.New)}
		if sub.Parent && r.Schema != nil {
			one.Type = nil
		}
		out.Subs = append(out.Subs, one)
	}
	return out
}

func structOf(empty func() runtime.Object) reflect.Type { return reflect.TypeOf(empty()).Elem() }
