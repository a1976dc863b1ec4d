package apiserver

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/planekit/planekit/apiserver/internal/requestline"
	"github.com/planekit/planekit/apiserver/internal/wire"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// A method serves a request for a resource.
type method = func(*Server, *request) error

// methods holds the methods of resources, by verb.
var methods = map[string]method{
	"create":           (*Server).create,
	"delete":           (*Server).delete,
	"deletecollection": (*Server).deleteCollection,
	"get":              (*Server).get,
	"list":             (*Server).list,
	"patch":            (*Server).patch,
	"update":           (*Server).update,
	"watch":            (*Server).watch,
}

func (s Status) method(verb string) method {
	switch verb {
	case "get":
		return (*Server).getStatus
	case "patch":
		return (*Server).patch
	case "update":
		return (*Server).update
	}
	return nil
}

func (v View) method(verb string) method {
	switch verb {
	case "create":
		return func(s *Server, q *request) error { return s.createView(q, v) }
	case "get":
		return func(s *Server, q *request) error { return s.getView(q, v) }
	case "patch":
		return (*Server).patch
	case "update":
		return (*Server).update
	}
	return nil
}

func (d Deletion) method(string) method {
	return func(s *Server, q *request) error { return s.createDeletion(q, d) }
}

func (u Question) method(string) method {
	return func(s *Server, q *request) error { return s.createQuestion(q, u) }
}

func (p Proxy) method(string) method {
	return func(s *Server, q *request) error { return s.connect(q, p) }
}

// route passes the request to the remote server, the resource or the path that serves it.
func (c *call) route() error {
	if c.remote != nil {
		c.forward()
		return nil
	}
	if c.info.Resource == "" {
		return c.server.routePath(&c.w, c.r, c.info, c.catalog)
	}
	if c.kind == nil {
		switch {
		case !c.catalog.hasGroup(c.info.Group):
			return wire.ErrNoPath
		case c.watches():
			return errMethod
		}
		return notServed()
	}
	q := &request{call: c, w: &c.w, r: c.r, info: c.info, kind: c.kind, sub: c.sub, user: c.user}
	serve, err := q.find()
	if err != nil {
		return err
	}
	q.annotateDeprecated()
	if _, ok := as[Proxy](q.sub); ok { // whose handler reads and writes what it likes
		q.warnOfVersion()
		return serve(c.server, q)
	}
	if err := q.checkPatch(); err != nil {
		return err
	}
	accept, can := wire.ParseAccept(q.r), q.accepts()
	if err := accept.Check(can); err != nil {
		return err
	}
	q.warnOfVersion()
	if q.out, err = accept.Negotiate(can); err != nil {
		return err
	}
	if err := q.checkShape(); err != nil {
		return err
	}
	if err := q.readCBOR(); err != nil {
		return err
	}
	return serve(c.server, q)
}

// warnOfVersion adds the warnings of a deprecated kind or version. As in Kubernetes, a request with unknown media types
// gets none.
func (q *request) warnOfVersion() {
	for _, text := range q.kind.Warnings {
		q.warn(text)
	}
}

// annotateDeprecated says in the audit event that the version is deprecated, as Kubernetes does.
func (q *request) annotateDeprecated() {
	if !q.call.summary.Deprecated {
		return
	}
	q.annotate("k8s.io/deprecated", "true")
	if removed := q.call.summary.RemovedRelease; removed != "" {
		q.annotate("k8s.io/removed-release", removed)
	}
}

// find returns the method that serves q, if the resource is served under this path by this verb.
func (q *request) find() (method, error) {
	if !q.kind.Namespaced {
		// The namespace of a request for a namespace is its own name; nothing
		// else cluster-scoped may be asked for inside one.
		if q.info.Namespace != "" && (q.info.Resource != "namespaces" || q.info.Name != q.info.Namespace) {
			return nil, notServed()
		}
		q.info.Namespace = ""
	} else if q.info.Namespace == "" && q.info.Verb != "list" && q.info.Verb != "watch" {
		if q.info.Name == "" {
			return nil, q.notAllowed() // the path lists the objects of all namespaces
		}
		return nil, notServed()
	}
	allowed, serve := q.kind.Verbs, methods[q.info.Verb]
	if q.info.Subresource != "" {
		if q.sub == nil {
			return nil, notServed()
		}
		allowed, serve = q.sub.verbs, q.sub.method(q.info.Verb)
	}
	proxy, _ := as[Proxy](q.sub)
	if q.info.Rest && !proxy.Paths {
		return nil, notServed()
	}
	if proxy.Paths && q.r.Method == http.MethodOptions { // which discovery does not show
		return proxy.method(q.info.Verb), nil
	}
	if serve == nil || !slices.Contains(allowed, q.info.Verb) || q.misplaced() {
		return nil, q.notAllowed()
	}
	return serve, nil
}

// errMethod is the error of a method that a path does not have.
var errMethod = statusError(http.StatusMethodNotAllowed, metav1.StatusReasonMethodNotAllowed, "the server does not allow this method on the requested resource")

// notAllowed returns the error of a method that q's path does not have. Of custom objects it names them, as in Kubernetes.
func (q *request) notAllowed() error {
	if q.kind.Schema != nil {
		return apierrors.NewMethodNotSupported(q.kind.gr, q.info.Verb)
	}
	return errMethod
}

// watches reports whether the path is one of the deprecated ones of watches, which have GET only.
func (c *call) watches() bool {
	if c.info.Resource != "watch" {
		return false
	}
	as, err := requestline.Parse(http.MethodGet, c.r.URL)
	return err == nil && as.OldWatch && c.catalog.kinds[as.GVR()] != nil
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

// routePath serves what is not a resource: discovery, health, OpenAPI.
func (s *Server) routePath(w http.ResponseWriter, r *http.Request, info requestline.Info, t *catalog) error {
	if handler := s.handler(info.Path); handler != nil {
		handler.ServeHTTP(w, r)
		return nil
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		return errMethod
	}
	segments := strings.Split(info.Path[1:], "/")
	switch segments[0] {
	case "healthz", "livez", "readyz":
		return s.health.serve(w, r, segments)
	case "openapi":
		return t.documents.ServeOpenAPI(w, r, segments[1:])
	case "api", "apis":
		return t.documents.ServeDiscovery(w, r, segments)
	case "version":
		if len(segments) == 1 {
			return s.responder.JSON(w, r, http.StatusOK, wire.JSON, s.config.Version)
		}
		return notServed()
	case "":
		return s.responder.JSON(w, r, http.StatusOK, wire.JSON, map[string][]string{"paths": s.paths(t)})
	}
	return wire.ErrNoPath
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

// paths returns the paths that a request for / lists.
func (s *Server) paths(t *catalog) []string {
	set := map[string]bool{}
	for _, p := range []string{"/api", "/apis", "/healthz", "/livez", "/openapi/v2", "/openapi/v3", "/readyz", "/version"} {
		set[p] = true
	}
	for path := range s.config.Handlers {
		set[path] = true
	}
	for _, g := range t.Groups() {
		for _, v := range g.Versions {
			set[g.Path(v)] = true
		}
		if g.Name != "" {
			set["/apis/"+g.Name] = true
		}
	}
	return slices.Sorted(maps.Keys(set))
}
