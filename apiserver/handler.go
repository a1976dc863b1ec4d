package apiserver

import (
	"context"
	"fmt"
	stdlog "log"
	"net/http"
	"runtime/debug"
	"slices"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// ServeHTTP authenticates, authorizes and serves a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.serve(w, r, s.authenticate)
}

// serve is the whole chain, with identify to tell who asks.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, identify func(*http.Request) (*user.Info, error)) {
	info, parseErr := parseRequest(r.Method, r.URL)
	recorder := &recorder{ResponseWriter: w, began: time.Now()}
	defer s.finish(recorder, r, info)
	if began := s.config.Hooks.Began; began != nil {
		began(s.served(r, info))
	}
	hurry(recorder, r)
	h := recorder.Header()
	h.Set("Cache-Control", "no-cache, private")
	if parseErr != nil {
		s.writeError(recorder, r, apierrors.NewBadRequest(parseErr.Error()))
		return
	}
	if !s.longRunning(info) {
		ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
		defer cancel()
		r = r.WithContext(ctx)
	}
	u, err := s.identified(recorder, r, info, identify)
	if r.ProtoMajor == 2 && (err != nil || strange(u)) {
		h.Set("Connection", "close") // net/http says GOAWAY
	}
	if err == nil {
		u, err = s.persona(recorder, r, u)
	}
	if err != nil {
		s.writeError(recorder, r, err)
		return
	}
	r = r.WithContext(user.NewContext(r.Context(), u))
	if !s.longRunning(info) {
		hold, err := s.receive(recorder, r, info, u)
		if err != nil {
			s.writeError(recorder, r, err)
			return
		}
		defer hold.Release()
	}
	if info.Verb == "watch" || !s.longRunning(info) {
		if recorder.leave, err = s.takeSeat(recorder, r, info, u); err != nil {
			s.writeError(recorder, r, err)
			return
		}
		recorder.watches = info.Verb == "watch"
		defer recorder.written()
	}
	if !s.authorize(recorder, r, info, u) {
		return
	}
	if err := s.route(recorder, r, info, u); err != nil {
		s.writeError(recorder, r, err)
	}
}

// strange reports users that could be anybody. Opening streams costs a stranger
// nothing (CVE-2023-44487), so they get one for each connection of HTTP/2.
func strange(u *user.Info) bool {
	return u.Name == user.Anonymous || u.In(user.Unauthenticated)
}

// persona is as whom u acts, which the audit is told where it is not u.
func (s *Server) persona(w *recorder, r *http.Request, u *user.Info) (*user.Info, error) {
	as, err := s.impersonate(r, u)
	if w.trail != nil && err == nil && as != u {
		w.trail.Impersonates(as)
	}
	return as, err
}

// longRunning reports requests that last as long as the client likes, which do
// not count among those in flight.
func (s *Server) longRunning(info requestInfo) bool {
	if info.Verb == "watch" {
		return true
	}
	k := s.kinds[info.gvr()]
	if info.Subresource == "" {
		return false
	}
	if k == nil {
		return s.aggregated(info) != nil && slices.Contains([]string{"attach", "exec", "log", "portforward", "proxy"}, info.Subresource)
	}
	sub := k.subresource(info.Subresource)
	return sub != nil && sub.Connect != nil
}

// finish turns a panic into a 500, or cuts the connection where an answer has
// begun, and keeps the process alive.
func (s *Server) finish(w *recorder, r *http.Request, info requestInfo) {
	cause := recover()
	panicked := cause != nil
	if cause != nil && cause != http.ErrAbortHandler {
		s.config.Log.Error(fmt.Errorf("panic: %v", cause), "handler panicked",
			"method", r.Method, "path", r.URL.Path, "stack", string(debug.Stack()))
		if w.code == 0 {
			s.writeError(w, r, apierrors.NewInternalError(fmt.Errorf("handler panicked")))
			cause = nil
		}
	}
	s.audited(w, r, info, panicked)
	if served := s.config.Hooks.Served; served != nil {
		done := s.served(r, info)
		done.Code, done.Bytes, done.Took, done.Flow = w.code, w.bytes, time.Since(w.began), w.flow
		served(done)
	}
	if cause != nil {
		panic(http.ErrAbortHandler)
	}
}

// served describes a request to the hooks. What is not served is not named:
// clients could make up names without end.
func (s *Server) served(r *http.Request, info requestInfo) Served {
	out := Served{Verb: info.Verb, LongRunning: s.longRunning(info)}
	k := s.kinds[info.gvr()]
	if info.Resource == "" || k == nil || info.Subresource != "" && k.subresource(info.Subresource) == nil {
		return out
	}
	out.Resource, out.Subresource = k.gvr, info.Subresource
	switch {
	case info.Verb == "create", info.Name != "" && info.Verb != "list" && info.Verb != "watch":
		out.Scope = "resource"
	case info.Namespace != "":
		out.Scope = "namespace"
	default:
		out.Scope = "cluster"
	}
	if info.Verb == "patch" && contentType(r) == string(types.ApplyYAMLPatchType) {
		out.Verb = "apply"
	}
	if r.URL.RawQuery != "" && info.Verb != "get" && info.Verb != "list" && info.Verb != "watch" {
		out.DryRun = r.URL.Query().Get("dryRun") != ""
	}
	return out
}

// authenticate finds out who asks and takes the credentials off the request.
func (s *Server) authenticate(r *http.Request) (*user.Info, error) {
	// Whichever of two headers was believed, somebody might believe the other.
	if len(r.Header.Values("Authorization")) > 1 {
		s.config.Log.V(1).Info("authentication failed", "error", authn.ErrManyAuthorizations.Error())
		return nil, apierrors.NewUnauthorized("Unauthorized")
	}
	u, known, err := s.config.Authenticator.Authenticate(r)
	if err != nil {
		s.config.Log.V(1).Info("authentication failed", "error", err.Error())
	}
	if err != nil || !known || u == nil || u.Name == "" {
		return nil, apierrors.NewUnauthorized("Unauthorized")
	}
	r.Header.Del("Authorization")
	stripRemote(r.Header)
	return u, nil
}

// authorize reports whether u may go on with the request, and has answered it
// otherwise. An authorizer that could not look at all it should have is no reason
// to refuse anybody: that is an error of the server's, in plain text as of
// kube-apiserver.
func (s *Server) authorize(w *recorder, r *http.Request, info requestInfo, u *user.Info) bool {
	a := info.attributes(u)
	decision, reason, err := s.config.Authorizer.Authorize(r.Context(), a)
	if decision != authz.Allow && err != nil {
		s.undecided(a, err)
		if w.trail != nil {
			w.trail.Annotate("authorization.k8s.io/reason", "internal error")
		}
		text := fmt.Sprintf("Internal Server Error: %q: %v", r.URL.RequestURI(), err)
		http.Error(w, plainText.Replace(text), http.StatusInternalServerError)
		return false
	}
	if w.trail != nil {
		w.trail.Decided(decision == authz.Allow, reason)
	}
	if decision != authz.Allow {
		s.writeError(w, r, notAllowed(a, reason))
		return false
	}
	return true
}

// authorizeMore asks whether u may do something else in the same request.
func (s *Server) authorizeMore(r *http.Request, info requestInfo, u *user.Info) error {
	a := info.attributes(u)
	decision, reason, err := s.config.Authorizer.Authorize(r.Context(), a)
	switch {
	case decision == authz.Allow:
		return nil
	case err != nil:
		return apierrors.NewInternalError(err)
	}
	return notAllowed(a, reason)
}

// undecided tells of an authorizer that could not decide.
func (s *Server) undecided(a authz.Attributes, err error) {
	s.config.Log.Error(err, "authorization incomplete", "user", a.User.Name, "verb", a.Verb)
}

// notAllowed is the error to whoever may not do a.
func notAllowed(a authz.Attributes, reason string) error {
	gr := schema.GroupResource{Group: a.Group, Resource: a.Resource}
	return apierrors.NewForbidden(gr, a.Name, fmt.Errorf("%s", forbidden(a, reason)))
}

// httpErrors hands what net/http has to say (failed handshakes mostly) to log.
func httpErrors(log logr.Logger) *stdlog.Logger {
	return stdlog.New(logWriter{log}, "", 0)
}

type logWriter struct{ log logr.Logger }

func (w logWriter) Write(line []byte) (int, error) {
	w.log.V(1).Info("http", "message", string(line))
	return len(line), nil
}
