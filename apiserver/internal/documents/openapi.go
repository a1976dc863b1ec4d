package apiserver

import (
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"sync"

	"github.com/planekit/planekit/apiserver/internal/openapi"
	"github.com/planekit/planekit/apiserver/internal/wire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// documents describe what is served: discovery, and the OpenAPI v3 documents by group version path without its
// first slash, and the one of v2 in both its forms. They are built when they are
// first asked for and never change.
type documents struct {
	catalog   *catalog
	responder *responder
	version   string // of the server

	byPath   map[string]func() (document, error)
	v2, v2PB func() (document, error)
}

// mediaOpenAPI is how OpenAPI v2 is written as protobuf. Clients ask for it by an
// older name, which is no valid media type for its @.
const (
	mediaOpenAPI    = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
	mediaOpenAPIOld = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
)

type document struct {
	data []byte
	hash string
}

func newDocuments(t *catalog, p *responder, version string) *documents {
	d := &documents{catalog: t, responder: p, version: version, byPath: map[string]func() (document, error){}}
	for _, g := range t.groups {
		for _, v := range g.versions {
			d.byPath[groupPath(g.name, v)[1:]] = sync.OnceValues(func() (document, error) {
				return d.buildDocument(g.name, v)
			})
		}
	}
	d.v2 = sync.OnceValues(d.buildV2)
	d.v2PB = sync.OnceValues(func() (document, error) {
		doc, err := d.v2()
		if err != nil {
			return document{}, err
		}
		data, err := openapi.Protobuf(doc.data)
		return document{data, digest(data)}, err
	})
	return d
}

// serve answers below /openapi: v3 is an index, v3/api/v1 and the like are the
// documents. v2 is all of them in one, for clients that do not know v3.
func (d *documents) serve(w http.ResponseWriter, r *http.Request, segments []string) error {
	if len(segments) == 1 && segments[0] == "v2" {
		return d.serveV2(w, r)
	}
	if len(segments) == 0 || segments[0] != "v3" {
		return notServed()
	}
	if _, err := wire.Negotiate(r, wire.Accepts{}); err != nil {
		return err
	}
	if len(segments) == 1 {
		return d.serveIndex(w, r)
	}
	build := d.byPath[strings.Join(segments[1:], "/")]
	if build == nil {
		return notServed()
	}
	doc, err := build()
	if err != nil {
		return err
	}
	if r.URL.Query().Get("hash") == doc.hash {
		w.Header().Set("Cache-Control", "public, immutable")
	}
	d.responder.writeTaggedBytes(w, r, wire.JSON, doc.data, doc.hash)
	return nil
}

func (d *documents) serveV2(w http.ResponseWriter, r *http.Request) error {
	build, media := d.v2, wire.JSON
	accept := strings.Join(r.Header.Values("Accept"), ",")
	if strings.Contains(accept, mediaOpenAPIOld) || strings.Contains(accept, mediaOpenAPI) {
		build, media = d.v2PB, mediaOpenAPI
	} else if _, err := wire.Negotiate(r, wire.Accepts{}); err != nil {
		return err
	}
	doc, err := build()
	if err != nil {
		return err
	}
	d.responder.writeTaggedBytes(w, r, media, doc.data, doc.hash)
	return nil
}

func (d *documents) buildV2() (document, error) {
	var all []openapi.Resource
	for _, g := range d.catalog.groups {
		for _, v := range g.versions {
			all = append(all, d.catalog.described(g.name, v)...)
		}
	}
	data, err := openapi.BuildV2("Kubernetes", d.version, all, reflect.TypeFor[metav1.DeleteOptions]())
	if err != nil {
		return document{}, fmt.Errorf("openapi v2: %w", err)
	}
	return document{data, digest(data)}, nil
}

func (d *documents) serveIndex(w http.ResponseWriter, r *http.Request) error {
	type entry struct {
		URL string `json:"serverRelativeURL"`
	}
	index := map[string]entry{}
	for path, build := range d.byPath {
		doc, err := build()
		if err != nil {
			return err
		}
		index[path] = entry{"/openapi/v3/" + path + "?hash=" + doc.hash}
	}
	for gv, other := range d.catalog.others() {
		// Its document is asked of the other server.
		path := groupPath(gv.Group, gv.Version)[1:]
		delete(index, path)
		if other.OpenAPIHash != "" {
			index[path] = entry{"/openapi/v3/" + path + "?hash=" + url.QueryEscape(other.OpenAPIHash)}
		}
	}
	return d.responder.writeTagged(w, r, wire.JSON, map[string]any{"paths": index})
}

func (d *documents) buildDocument(name, version string) (document, error) {
	data, err := openapi.Build("Kubernetes", d.version, d.catalog.described(name, version), reflect.TypeFor[metav1.DeleteOptions]())
	if err != nil {
		return document{}, fmt.Errorf("openapi of %s: %w", groupPath(name, version), err)
	}
	return document{data, digest(data)}, nil
}

// described are the resources of a group version as OpenAPI sees them.
func (t *catalog) described(name, version string) []openapi.Resource {
	var resources []openapi.Resource
	for _, k := range t.kindsOf(name, version) {
		r := openapi.Resource{
			Path: groupPath(name, version), Plural: k.Plural, Namespaced: k.Namespaced, Verbs: k.Verbs,
			Kind: openapiKind(k.gvk), Type: structOf(k.New()),
		}
		if k.Answer == nil {
			r.List = structOf(k.NewList())
		}
		for i := range k.subresources {
			sub := &k.subresources[i]
			if _, ok := as[Proxy](sub); ok {
				continue // no type describes the server behind it
			}
			shown := k.New
			if sub.newBody != nil {
				shown = sub.newBody
			}
			r.Subs = append(r.Subs, openapi.Sub{
				Name: sub.name, Verbs: sub.verbs, Kind: openapiKind(k.subKind(sub)), Type: structOf(shown()),
			})
		}
		resources = append(resources, r)
	}
	return resources
}

func openapiKind(gvk schema.GroupVersionKind) openapi.Kind {
	return openapi.Kind{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind}
}

func structOf(obj runtime.Object) reflect.Type { return reflect.TypeOf(obj).Elem() }
