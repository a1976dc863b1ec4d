package apiserver

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// routePath serves what is not a resource: discovery, health, OpenAPI.
func (s *Server) routePath(w http.ResponseWriter, r *http.Request, info requestInfo) error {
	if handler := s.handler(info.Path); handler != nil {
		handler.ServeHTTP(w, r)
		return nil
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return apierrors.NewMethodNotSupported(schema.GroupResource{Resource: info.Path}, info.Verb)
	}
	segments := strings.Split(info.Path[1:], "/")
	switch segments[0] {
	case "healthz", "livez", "readyz":
		return s.health(w, r, segments)
	case "openapi":
		return s.documents.serve(s, w, r, segments[1:])
	case "api", "apis":
		return s.discover(w, r, segments)
	case "version":
		if len(segments) == 1 {
			return s.writeJSON(w, r, http.StatusOK, mediaJSON, s.config.Version)
		}
	case "":
		return s.writeJSON(w, r, http.StatusOK, mediaJSON, map[string][]string{"paths": s.paths()})
	}
	return notServed()
}

// handler returns who serves path beside the server itself: the handler of just
// that path, or that of the longest part of it.
func (s *Server) handler(path string) http.Handler {
	if len(s.config.Handlers) == 0 || s.ownPath(path) {
		return nil
	}
	if handler := s.config.Handlers[path]; handler != nil {
		return handler
	}
	for dir := path + "/"; len(dir) > 1; dir = dir[:strings.LastIndexByte(dir[:len(dir)-1], '/')+1] {
		if handler := s.config.Handlers[dir]; handler != nil {
			return handler
		}
	}
	return nil
}

func (s *Server) ownPath(path string) bool {
	first, _, _ := strings.Cut(path[1:], "/")
	return slices.Contains([]string{"", "api", "apis", "healthz", "livez", "openapi", "readyz", "version"}, first)
}

// paths are those that / lists.
func (s *Server) paths() []string {
	set := map[string]bool{}
	for _, p := range []string{"/api", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"} {
		set[p] = true
	}
	for path := range s.config.Handlers {
		set[path] = true
	}
	for _, g := range s.groups {
		for _, v := range g.versions {
			set[groupPath(g.name, v)] = true
		}
		if g.name != "" {
			set["/apis/"+g.name] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}

// groupPath is where a version of a group is served.
func groupPath(name, version string) string {
	if name == "" {
		return "/api/" + version
	}
	return "/apis/" + name + "/" + version
}
