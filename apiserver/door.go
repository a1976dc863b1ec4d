package apiserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"github.com/planekit/planekit/apiserver/internal/intake"
	"github.com/planekit/planekit/apiserver/internal/requestline"
	"github.com/planekit/planekit/apiserver/internal/wire"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/internal/budget"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/types"
)

// A call is one HTTP request on its way through the server. Each fact about the request is
// found once and kept here, so that no two steps can disagree about it.
type call struct {
	server *Server
	w      recorder
	r      *http.Request
	// authenticate returns the user that sent the request.
	authenticate func(*http.Request) (*user.Info, error)

	info requestline.Info
	// invalid is why the request line could not be read.
	invalid error
	// remote serves requests for the groups of another server; nil if this one does.
	remote http.Handler
	// catalog holds what the server served when the request arrived.
	catalog *catalog
	// kind and sub are what the path leads to; nil if this server does not have it.
	kind *servedKind
	sub  *subresource
	// longRunning says that the request lasts as long as the client likes. Such requests do
	// not count as requests in flight.
	longRunning bool
	summary     RequestSummary // for the hooks

	// user is the authenticated user, and after impersonate the impersonated one.
	user  *user.Info
	audit auditing
	// body is the memory reserved for the request's body.
	body   intake.Hold
	cancel context.CancelFunc // of the context of r; nil if it has no timeout
}

// steps lists what each request passes, in order. The first error ends the request and is its
// response.
var steps = []func(*call) error{
	(*call).begin,
	(*call).identify,
	(*call).impersonate,
	(*call).receive,
	(*call).enqueue,
	(*call).authorize,
	(*call).route,
}

// errResponded is the error of a step that has written the response itself.
var errResponded = errors.New("a response has been written")

// ServeHTTP authenticates, authorizes and serves a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.serve(w, r, s.guard.authenticate)
}

// serveUser serves a request of u, whom this process knows.
func (s *Server) serveUser(w http.ResponseWriter, r *http.Request, u *user.Info) {
	s.serve(w, r, func(*http.Request) (*user.Info, error) { return u, nil })
}

// serve handles a request of the user that authenticate returns.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, authenticate func(*http.Request) (*user.Info, error)) {
	c := &call{server: s, r: r, authenticate: authenticate, w: recorder{ResponseWriter: w, began: time.Now()}}
	defer c.finish()
	c.info, c.invalid = requestline.Parse(r.Method, r.URL)
	c.locate()
	for _, step := range steps {
		if err := step(c); err != nil {
			c.fail(err)
			return
		}
	}
}

// locate finds what the path leads to.
func (c *call) locate() {
	c.summary.Verb = c.info.Verb
	c.catalog = c.server.catalog.Load()
	if c.invalid != nil {
		return
	}
	i := &c.info
	c.enter()
	c.remote = c.catalog.remote(i)
	if c.kind != nil && i.Subresource != "" {
		c.sub = c.kind.subresource(i.Subresource)
	}
	switch {
	case i.Verb == "watch":
		c.longRunning = true
	case i.Subresource == "":
	case c.kind == nil:
		c.longRunning = c.remote != nil && slices.Contains([]string{"attach", "exec", "log", "portforward", "proxy"}, i.Subresource)
	default:
		_, c.longRunning = as[Proxy](c.sub)
	}
	c.summary.LongRunning = c.longRunning
	c.describe()
}

// describe names the resource for the hooks. It leaves out what is not served, because clients
// could make up names without end.
func (c *call) describe() {
	i, out := &c.info, &c.summary
	if i.Resource == "" || c.kind == nil || i.Subresource != "" && c.sub == nil {
		return
	}
	out.Resource, out.Subresource = c.kind.gvr, i.Subresource
	out.Deprecated, out.RemovedRelease = len(c.kind.Warnings) > 0, c.kind.removedRelease
	switch {
	case i.Verb == "create", i.Name != "" && i.Verb != "list" && i.Verb != "watch":
		out.Scope = "resource"
	case i.Namespace != "":
		out.Scope = "namespace"
	default:
		out.Scope = "cluster"
	}
	if media := wire.ContentType(c.r); i.Verb == "patch" && (media == string(types.ApplyYAMLPatchType) || media == wire.CBORApply) {
		out.Verb = "apply"
	}
	if c.r.URL.RawQuery != "" && i.Verb != "get" && i.Verb != "list" && i.Verb != "watch" {
		out.DryRun = c.r.URL.Query().Get("dryRun") != ""
	}
}

// begin reports the request to the hooks and sets the limits of its time.
func (c *call) begin() error {
	if began := c.server.config.Hooks.Began; began != nil {
		began(c.summary)
	}
	intake.SetReadDeadline(&c.w, c.r)
	c.w.Header().Set("Cache-Control", "no-cache, private")
	if c.invalid != nil {
		return apierrors.NewBadRequest(c.invalid.Error())
	}
	if !c.longRunning {
		timeout, err := timeoutOf(c.r)
		if err != nil {
			return err
		}
		var ctx context.Context
		ctx, c.cancel = context.WithTimeout(c.r.Context(), timeout)
		c.r = c.r.WithContext(budget.Attach(ctx, budget.Default))
	}
	return nil
}

// timeoutOf returns the time for a request: requestTimeout, or less if the client has less.
func timeoutOf(r *http.Request) (time.Duration, error) {
	if !strings.Contains(r.URL.RawQuery, "timeout=") { // which saves parsing
		return requestTimeout, nil
	}
	text := r.URL.Query().Get("timeout")
	if text == "" {
		return requestTimeout, nil
	}
	timeout, err := time.ParseDuration(text)
	if err != nil {
		return 0, badRequest("invalid timeout specified in the request URL - %v", err)
	}
	if timeout <= 0 {
		return requestTimeout, nil
	}
	return min(timeout, requestTimeout), nil
}

// fail responds with err, unless the step that returned it has responded.
func (c *call) fail(err error) {
	if err != errResponded {
		c.server.responder.writeError(&c.w, c.r, err)
	}
}

// finish releases what the request holds and reports how it ended. It turns a panic into a
// 500, or closes the connection if the response has begun, so that the process goes on.
func (c *call) finish() {
	s, w := c.server, &c.w
	cause := recover()
	panicked := cause != nil
	if cause != nil && cause != http.ErrAbortHandler {
		s.config.Log.Error(fmt.Errorf("panic: %v", cause), "handler panicked",
			"method", c.r.Method, "path", c.r.URL.Path, "stack", string(debug.Stack()))
		if w.code == 0 {
			c.fail(apierrors.NewInternalError(fmt.Errorf("handler panicked")))
			cause = nil
		}
	}
	w.finish()
	c.body.Release()
	c.exit()
	if c.cancel != nil {
		if w.code == http.StatusGatewayTimeout && errors.Is(c.r.Context().Err(), context.DeadlineExceeded) {
			c.summary.Terminated = true
		}
		c.cancel()
	}
	c.endAudit(panicked)
	if ended := s.config.Hooks.Ended; ended != nil {
		c.summary.Code, c.summary.Bytes, c.summary.Took = w.code, w.bytes, time.Since(w.began)
		ended(c.summary)
	}
	if cause != nil {
		panic(http.ErrAbortHandler)
	}
}

// leave gives up the seats of a request that goes on without work for this server.
func (c *call) leave() {
	if c.w.leave != nil {
		c.w.leave()
	}
}
