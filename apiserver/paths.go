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

// paths are those that / lists.
func (s *Server) paths() []string {
	set := map[string]bool{}
	for _, p := range []string{"/api", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"} {
		set[p] = true
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
