package apiserver

import (
	"net/http"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// An Aggregator serves API groups that other servers have. Package aggregate has
// one. Its methods are called by many goroutines.
type Aggregator interface {
	// GroupVersions are those which others serve, the preferred of each group
	// first.
	GroupVersions() []schema.GroupVersion
	// Handler returns who serves a group version, nil if this server does. The
	// user is in the request's context (see package user), who may do what is
	// asked.
	Handler(schema.GroupVersion) http.Handler
}

// aggregated returns the other server that serves the request, nil if this one
// does.
func (s *Server) aggregated(info requestInfo) http.Handler {
	if s.config.Aggregator == nil {
		return nil
	}
	segments := strings.SplitN(info.Path, "/", 5) // "", apis, group, version, rest
	if len(segments) < 4 || segments[1] != "apis" {
		return nil
	}
	return s.config.Aggregator.Handler(schema.GroupVersion{Group: segments[2], Version: segments[3]})
}

// allGroups are the groups of this server and those of others, as they are now.
func (s *Server) allGroups() []*group {
	if s.config.Aggregator == nil {
		return s.groups
	}
	all := slices.Clone(s.groups)
	for _, gv := range s.config.Aggregator.GroupVersions() {
		i := slices.IndexFunc(all, func(g *group) bool { return g.name == gv.Group })
		if i < 0 {
			all = append(all, &group{name: gv.Group, versions: []string{gv.Version}})
			continue
		}
		if !slices.Contains(all[i].versions, gv.Version) {
			all[i] = &group{name: gv.Group, versions: append(slices.Clone(all[i].versions), gv.Version)}
		}
	}
	return all
}

// aggregates reports whether groups of others are served. The one document of
// all resources leaves them out, so it is not offered then, and clients ask for
// each group version by itself.
func (s *Server) aggregates() bool {
	return s.config.Aggregator != nil && len(s.config.Aggregator.GroupVersions()) > 0
}
