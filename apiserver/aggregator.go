package apiserver

import (
	"context"
	"net/http"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// An Aggregator serves API groups that other servers have. Package aggregate has
// one. Its methods are called by many goroutines, Handler with every request.
type Aggregator interface {
	// GroupVersions are those which others serve and, where they are in an order
	// with them, those of this server, the preferred of each group first. Nobody
	// changes what it returns.
	GroupVersions() []AggregatedVersion
	// Handler returns who serves a group version, nil if this server does. The
	// user is in the request's context (see package user), who may do what is
	// asked. It is asked for the documents of the group version also.
	Handler(schema.GroupVersion) http.Handler
}

// AggregatedVersion is what is known of one version of a group.
type AggregatedVersion struct {
	schema.GroupVersion
	// Local says that this server serves it. The rest is of no meaning then.
	Local bool
	// Resources are what the other server has last said that it has, with their
	// subresources, as in an APIResourceList.
	Resources []metav1.APIResource
	// Stale says that it cannot be asked at the moment.
	Stale bool
	// OpenAPIHash is that of its OpenAPI v3 document; empty is no document.
	OpenAPIHash string
}

// aggregated returns the other server that serves the request, nil if this one
// does.
func (s *Server) aggregated(info requestInfo) http.Handler {
	if s.config.Aggregator == nil {
		return nil
	}
	if info.Resource != "" {
		if info.Group == "" {
			return nil
		}
		return s.config.Aggregator.Handler(schema.GroupVersion{Group: info.Group, Version: info.Version})
	}
	return s.documented(info.Path)
}

// documented returns the other server that has the document at path: the
// discovery or OpenAPI v3 of its group version.
func (s *Server) documented(path string) http.Handler {
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
	return s.config.Aggregator.Handler(schema.GroupVersion{Group: group, Version: version})
}

// passOn has other serve the request. What lasts as long as the client likes ends
// when this server winds up.
func (s *Server) passOn(other http.Handler, w http.ResponseWriter, r *http.Request, info requestInfo) {
	if s.longRunning(info) {
		unhurry(w)
		ctx, cancel := context.WithCancel(r.Context())
		defer cancel()
		defer context.AfterFunc(s.stopping, cancel)()
		r = r.WithContext(ctx)
	}
	other.ServeHTTP(w, r)
}

// allGroups are the groups of this server and those of others, as they are now,
// in the aggregator's order. Those of which it has none come first.
func (s *Server) allGroups() []*group {
	if s.config.Aggregator == nil {
		return s.groups
	}
	var listed []*group
	for _, v := range s.config.Aggregator.GroupVersions() {
		if v.Local && !s.serves(v.GroupVersion) {
			continue
		}
		listed = addVersion(listed, v.GroupVersion)
	}
	var first []*group
	for _, g := range s.groups {
		if !slices.ContainsFunc(listed, func(l *group) bool { return l.name == g.name }) {
			first = append(first, g)
			continue
		}
		for _, v := range g.versions {
			listed = addVersion(listed, schema.GroupVersion{Group: g.name, Version: v})
		}
	}
	return append(first, listed...)
}

// addVersion adds gv to groups unless it is there.
func addVersion(groups []*group, gv schema.GroupVersion) []*group {
	i := slices.IndexFunc(groups, func(g *group) bool { return g.name == gv.Group })
	if i < 0 {
		return append(groups, &group{name: gv.Group, versions: []string{gv.Version}})
	}
	if g := groups[i]; !slices.Contains(g.versions, gv.Version) {
		g.versions = append(g.versions, gv.Version)
	}
	return groups
}

// serves reports whether this server itself has gv.
func (s *Server) serves(gv schema.GroupVersion) bool {
	return slices.ContainsFunc(s.groups, func(g *group) bool {
		return g.name == gv.Group && slices.Contains(g.versions, gv.Version)
	})
}

// others are the group versions of other servers.
func (s *Server) others() map[schema.GroupVersion]AggregatedVersion {
	if s.config.Aggregator == nil {
		return nil
	}
	out := map[schema.GroupVersion]AggregatedVersion{}
	for _, v := range s.config.Aggregator.GroupVersions() {
		if !v.Local {
			out[v.GroupVersion] = v
		}
	}
	return out
}

// stripRemote takes off what only a front proxy may say of the user, after it
// has been read: nothing behind is to believe it a second time.
func stripRemote(h http.Header) {
	for name := range h {
		if name == "" || name[0]|0x20 != 'x' {
			continue
		}
		if strings.HasPrefix(http.CanonicalHeaderKey(strings.ReplaceAll(name, "_", "-")), "X-Remote-") {
			delete(h, name)
		}
	}
}
