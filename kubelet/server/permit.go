package server

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// verbs maps HTTP methods to verbs.
var verbs = map[string]string{
	http.MethodGet: "get", http.MethodHead: "get", http.MethodPost: "create",
	http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
}

// rights are the required permissions for the first segment of a path: one of the subresources of
// the node, checked in that order, and a verb, or the method's verb if empty
// (https://kubernetes.io/docs/reference/access-authn-authz/kubelet-authn-authz/).
type rights struct {
	subresources []string
	verb         string
}

// anything is required for all other paths. running requires the verb create for any method,
// because a WebSocket begins with GET.
var (
	anything = rights{subresources: []string{"proxy"}}
	running  = rights{subresources: []string{"proxy"}, verb: "create"}
)

var rightsOf = map[string]rights{
	"attach":      running,
	"checkpoint":  {subresources: []string{"checkpoint"}},
	"configz":     {subresources: []string{"configz", "proxy"}},
	"cri":         running,
	"exec":        running,
	"healthz":     {subresources: []string{"healthz", "proxy"}},
	"logs":        {subresources: []string{"log"}},
	"metrics":     {subresources: []string{"metrics"}},
	"pods":        {subresources: []string{"pods", "proxy"}},
	"portForward": running,
	"run":         running,
	"runningpods": {subresources: []string{"pods", "proxy"}},
	"spec":        {subresources: []string{"spec"}},
	"stats":       {subresources: []string{"stats"}},
}

// rightsFor returns the permissions that a path requires. An ambiguous path, with encoded slashes,
// dots or empty segments, requires the most.
func rightsFor(u *url.URL) rights {
	segments := strings.Split(strings.TrimPrefix(u.EscapedPath(), "/"), "/")
	if last := len(segments) - 1; last > 0 && segments[last] == "" {
		segments = segments[:last] // a trailing slash
	}
	for i, segment := range segments {
		plain, err := url.PathUnescape(segment)
		if err != nil || plain == "" && len(segments) > 1 || plain == "." || plain == ".." || strings.ContainsAny(plain, "/\\") {
			return running
		}
		segments[i] = plain
	}
	if r, known := rightsOf[segments[0]]; known {
		return r
	}
	return anything
}

// permit reports whether a request is allowed, and otherwise answers it.
func (s *Server) permit(w http.ResponseWriter, r *http.Request) bool {
	name, groups, err := s.config.Authenticate(r)
	if err != nil {
		s.config.Log.V(1).Info("authentication failed", "error", err.Error())
	}
	if err != nil || name == "" {
		http.Error(w, "Unauthorized", http.StatusUnauthorized)
		return false
	}
	verb, known := verbs[r.Method]
	if !known {
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return false
	}
	takes := rightsFor(r.URL)
	if takes.verb != "" {
		verb = takes.verb
	}
	for _, subresource := range takes.subresources {
		allowed, err := s.config.Authorize(r.Context(), name, slices.Clone(groups), verb, subresource)
		if err != nil { // the authorizer has failed
			s.config.Log.Error(err, "authorization failed", "user", name, "verb", verb, "subresource", subresource)
			http.Error(w, fmt.Sprintf("Authorization error (user=%s, verb=%s, resource=nodes, subresource=%s)", name, verb, subresource), http.StatusInternalServerError)
			return false
		}
		if allowed {
			return true
		}
	}
	http.Error(w, fmt.Sprintf("Forbidden (user=%s, verb=%s, resource=nodes, subresource(s)=%v)", name, verb, takes.subresources), http.StatusForbidden)
	return false
}
