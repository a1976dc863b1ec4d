package documents

import (
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strings"

	"github.com/planekit/planekit/apiserver/internal/openapi"
	"github.com/planekit/planekit/apiserver/internal/reply"
	"github.com/planekit/planekit/apiserver/internal/wire"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// mediaOpenAPI is how OpenAPI v2 is written as protobuf. Clients ask for it by an
// older name, which is no valid media type for its @.
const (
	mediaOpenAPI    = "application/com.github.proto-openapi.spec.v2.v1.0+protobuf"
	mediaOpenAPIOld = "application/com.github.proto-openapi.spec.v2@v1.0+protobuf"
)

// ServeOpenAPI answers below /openapi: v3 is an index, v3/api/v1 and the like are the
// documents. v2 is all of them in one, for clients that do not know v3.
func (d *Documents) ServeOpenAPI(w http.ResponseWriter, r *http.Request, segments []string) error {
	if len(segments) == 1 && segments[0] == "v2" {
		return d.serveV2(w, r)
	}
	if len(segments) == 0 || segments[0] != "v3" {
		return wire.ErrNoPath
	}
	if _, err := wire.Negotiate(r, wire.Accepts{}); err != nil {
		return err
	}
	if len(segments) == 1 {
		return d.serveIndex(w, r)
	}
	known := d.v3[strings.Join(segments[1:], "/")]
	if known == nil {
		return wire.ErrNoPath
	}
	doc, err := known.build()
	if err != nil {
		return err
	}
	if r.URL.Query().Get("hash") == doc.hash {
		w.Header().Set("Cache-Control", "public, immutable")
	}
	d.replies.TaggedBytes(w, r, wire.JSON, doc.data, doc.hash)
	return nil
}

func (d *Documents) serveV2(w http.ResponseWriter, r *http.Request) error {
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
	d.replies.TaggedBytes(w, r, media, doc.data, doc.hash)
	return nil
}

func (d *Documents) buildV2() (document, error) {
	var all []openapi.Resource
	for _, g := range d.catalog.OwnGroups() {
		for _, v := range g.Versions {
			all = append(all, OpenAPI(d.catalog.Resources(g.Name, v))...)
		}
	}
	data, err := openapi.BuildV2("Kubernetes", d.version, all, reflect.TypeFor[metav1.DeleteOptions]())
	if err != nil {
		return document{}, fmt.Errorf("openapi v2: %w", err)
	}
	return document{data, reply.Digest(data)}, nil
}

func (d *Documents) serveIndex(w http.ResponseWriter, r *http.Request) error {
	type entry struct {
		URL string `json:"serverRelativeURL"`
	}
	index := map[string]entry{}
	for path, doc := range d.v3 {
		hash, err := doc.hash()
		if err != nil {
			return err
		}
		index[path] = entry{"/openapi/v3/" + path + "?hash=" + hash}
	}
	for gv, other := range d.catalog.Others() {
		// Its document is asked of the other server.
		g := Group{Name: gv.Group}
		path := g.Path(gv.Version)[1:]
		delete(index, path)
		if other.OpenAPIHash != "" {
			index[path] = entry{"/openapi/v3/" + path + "?hash=" + url.QueryEscape(other.OpenAPIHash)}
		}
	}
	return d.replies.Tagged(w, r, wire.JSON, map[string]any{"paths": index})
}

func (d *Documents) buildV3(g *Group, version string, resources []Resource) (document, error) {
	data, err := openapi.Build("Kubernetes", d.version, OpenAPI(resources), reflect.TypeFor[metav1.DeleteOptions]())
	if err != nil {
		return document{}, fmt.Errorf("openapi of %s: %w", g.Path(version), err)
	}
	return document{data, reply.Digest(data)}, nil
}
