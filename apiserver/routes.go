package apiserver

import (
	"net/http"
	"slices"

	"github.com/planekit/planekit/authn/user"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// verbs maps what is asked to what does it. Subresources have a table of
// their own.
var verbs = map[string]func(*Server, *request) error{
	"create":           (*Server).create,
	"delete":           (*Server).delete,
	"deletecollection": (*Server).deleteCollection,
	"get":              (*Server).get,
	"list":             (*Server).list,
	"patch":            (*Server).patch,
	"update":           (*Server).update,
	"watch":            (*Server).watch,
}

var subVerbs = map[string]func(*Server, *request) error{
	"create": (*Server).createSub,
	"get":    (*Server).getSub,
	"patch":  (*Server).patch,
	"update": (*Server).update,
}

// route finds who serves the request: another server, a resource, a path.
func (s *Server) route(w http.ResponseWriter, r *http.Request, info requestInfo, u *user.Info) error {
	if other := s.aggregated(info); other != nil {
		s.passOn(other, w, r, info)
		return nil
	}
	if info.Resource == "" {
		return s.routePath(w, r, info)
	}
	q := &request{w: w, r: r, info: info, kind: s.kinds[info.gvr()], user: u}
	if q.kind == nil {
		return notServed()
	}
	if !q.kind.Namespaced {
		// The namespace of a request for a namespace is its own name; nothing
		// else cluster-scoped may be asked for inside one.
		if info.Namespace != "" && (info.Resource != "namespaces" || info.Name != info.Namespace) {
			return notServed()
		}
		q.info.Namespace = ""
	} else if info.Namespace == "" && info.Verb != "list" && info.Verb != "watch" {
		return notServed()
	}
	allowed, serve := q.kind.Verbs, verbs[info.Verb]
	if info.Subresource != "" {
		if q.sub = q.kind.subresource(info.Subresource); q.sub == nil {
			return notServed()
		}
		allowed, serve = q.sub.Verbs, subVerbs[info.Verb]
		if q.sub.Connect != nil {
			serve = (*Server).connect
		}
	}
	if info.rest && (q.sub == nil || !q.sub.Paths) {
		return notServed()
	}
	if serve == nil || !slices.Contains(allowed, info.Verb) || q.misplaced() {
		return apierrors.NewMethodNotSupported(q.kind.gr, info.Verb)
	}
	if q.sub != nil && q.sub.Connect != nil {
		return serve(s, q) // what it writes is its own affair
	}
	var err error
	if q.out, err = negotiate(r, q.accepts()); err != nil {
		return err
	}
	return serve(s, q)
}

// misplaced reports a method that is served, but not here: POST to an object,
// PUT or PATCH to a collection.
func (q *request) misplaced() bool {
	switch q.info.Verb {
	case "create":
		return q.info.Name != "" && q.sub == nil
	case "update", "patch":
		return q.info.Name == ""
	}
	return false
}
