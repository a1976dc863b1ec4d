package server

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
)

// verbs are what methods are authorized as.
var verbs = map[string]string{
	http.MethodGet: "get", http.MethodHead: "get", http.MethodPost: "create",
	http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
}

// rights are what the first segment of a path takes: one of the subresources of the
// node, asked for in that order, and a verb, empty for that of the method
// (https://kubernetes.io/docs/reference/access-authn-authz/kubelet-authn-authz/).
type rights struct {
	subresources []string
	verb         string
}

// anything is what all other paths take. running is what takes the right to create
// whatever the method: a WebSocket begins with GET.
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

// rightsFor returns what a path takes. One that could be read in two ways, with
// encoded slashes, dots or empty segments, takes most.
func rightsFor(u *url.URL) rights {
	segments := strings.Split(strings.TrimPrefix(u.EscapedPath(), "/"), "/")
	if last := len(segments) - 1; last > 0 && segments[last] == "" {
		segments = segments[:last] // a slash at the end
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

// permit answers requests that may not go on, and reports whether this one may.
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
		if err != nil { // which says nothing about the user
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
