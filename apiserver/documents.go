package apiserver

import (
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"sync"

	"github.com/planekit/planekit/apiserver/internal/openapi"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// documents are the OpenAPI v3 documents by group version path without its
// first slash. They are built when they are first asked for and never change.
type documents struct {
	byPath map[string]func() (document, error)
}

type document struct {
	data []byte
	hash string
}

func newDocuments(s *Server) *documents {
	d := &documents{byPath: map[string]func() (document, error){}}
	for _, g := range s.groups {
		for _, v := range g.versions {
			d.byPath[groupPath(g.name, v)[1:]] = sync.OnceValues(func() (document, error) {
				return s.buildDocument(g.name, v)
			})
		}
	}
	return d
}

// serve answers below /openapi: v3 is an index, v3/api/v1 and the like are the
// documents. There is no v2: clients that know v3 do not ask for it.
func (d *documents) serve(s *Server, w http.ResponseWriter, r *http.Request, segments []string) error {
	if len(segments) == 0 || segments[0] != "v3" {
		return notServed()
	}
	if _, err := negotiate(r, accepts{}); err != nil {
		return err
	}
	if len(segments) == 1 {
		return d.serveIndex(s, w, r)
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
	s.writeTaggedBytes(w, r, mediaJSON, doc.data, doc.hash)
	return nil
}

func (d *documents) serveIndex(s *Server, w http.ResponseWriter, r *http.Request) error {
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
	return s.writeTagged(w, r, mediaJSON, map[string]any{"paths": index})
}

func (s *Server) buildDocument(name, version string) (document, error) {
	var resources []openapi.Resource
	for _, k := range s.kindsOf(name, version) {
		r := openapi.Resource{
			Path: groupPath(name, version), Plural: k.Plural, Namespaced: k.Namespaced, Verbs: k.Verbs,
			Kind: openapiKind(k.gvk), Type: structOf(k.New()),
		}
		if k.Answer == nil {
			r.List = structOf(k.NewList())
		}
		for i := range k.Subresources {
			sub := &k.Subresources[i]
			if sub.Connect != nil {
				continue // what is behind it is described by no type
			}
			shown := k.New
			if sub.New != nil {
				shown = sub.New
			}
			r.Subs = append(r.Subs, openapi.Sub{
				Name: sub.Name, Verbs: sub.Verbs, Kind: openapiKind(k.subKind(sub)), Type: structOf(shown()),
			})
		}
		resources = append(resources, r)
	}
	data, err := openapi.Build("Kubernetes", s.config.Version.GitVersion, resources, reflect.TypeFor[metav1.DeleteOptions]())
	if err != nil {
		return document{}, fmt.Errorf("openapi of %s: %w", groupPath(name, version), err)
	}
	return document{data, digest(data)}, nil
}

func openapiKind(gvk schema.GroupVersionKind) openapi.Kind {
	return openapi.Kind{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind}
}

func structOf(obj runtime.Object) reflect.Type { return reflect.TypeOf(obj).Elem() }
