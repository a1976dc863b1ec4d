package apiserver

import (
	"context"
	"net/http"
	"strings"

	"github.com/planekit/planekit/apiserver/internal/intake"
	"github.com/planekit/planekit/apiserver/internal/requestline"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// An Aggregator serves API groups that other servers have. Package aggregate has
// one. Its methods are called by many goroutines, Handler with every request.
type Aggregator interface {
	// GroupVersions returns the group versions of other servers and, if they are in one
	// order with them, those of this server, the preferred of each group first. The
	// result must not be changed.
	GroupVersions() []AggregatedVersion
	// Handler returns the handler of a group version, nil if this server serves it. The
	// user is in the request's context (see package user) and has been authorized. The
	// handler also serves the documents of the group version.
	Handler(schema.GroupVersion) http.Handler
}

// An AggregatedVersion describes one version of a group.
type AggregatedVersion struct {
	schema.GroupVersion
	// Local reports whether this server serves the version. If so, the fields below have no
	// meaning.
	Local bool
	// Resources lists the resources and subresources of the other server's last discovery
	// document, as an APIResourceList does.
	Resources []metav1.APIResource
	// Stale reports that the other server does not answer at the moment.
	Stale bool
	// OpenAPIHash is the hash of the version's OpenAPI v3 document; empty means no document.
	OpenAPIHash string
}

// remote returns the handler of another server that serves the request, nil if this server
// does.
func (t *catalog) remote(info *requestline.Info) http.Handler {
	if t.aggregator == nil {
		return nil
	}
	if info.Resource != "" {
		if info.Group == "" {
			return nil
		}
		return t.aggregator.Handler(schema.GroupVersion{Group: info.Group, Version: info.Version})
	}
	return t.documented(info.Path)
}

// documented returns the handler of another server that has the document at path: the
// discovery or the OpenAPI v3 document of its group version.
func (t *catalog) documented(path string) http.Handler {
	rest, ok := strings.CutPrefix(path, "/openapi/v3/apis/")
	if !ok {
		if rest, ok = strings.CutPrefix(path, "/apis/"); !ok {
			return nil
		}
	}
	group, version, ok := strings.Cut(rest, "/")
	if !ok || strings.Contains(version, "/") {
		return nil
	}
	return t.aggregator.Handler(schema.GroupVersion{Group: group, Version: version})
}

// forward has the remote server respond. Long-running requests end when this server stops.
func (c *call) forward() {
	r := c.r
	if c.longRunning {
		intake.RemoveReadDeadline(&c.w)
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(c.server.stopping, cancel)()
		r = r.WithContext(ctx)
	}
	c.remote.ServeHTTP(&c.w, r)
}
