package apiserver

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	goruntime "runtime"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/apiserver/flowcontrol"
	"github.com/planekit/planekit/apiserver/internal/documents"
	"github.com/planekit/planekit/apiserver/internal/inprocess"
	"github.com/planekit/planekit/apiserver/internal/intake"
	"github.com/planekit/planekit/apiserver/internal/reply"
	"github.com/planekit/planekit/apiserver/internal/wire"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/storage"
	"github.com/planekit/planekit/storage/cache"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/version"
)

// Admission completes and checks every write between decoding and storage; an admission
// chain is one. Mutate may change the request's object, Validate may not. An API status
// error goes to the client as it is, any other becomes 403.
type Admission interface {
	Mutate(context.Context, *admission.Request) error
	Validate(context.Context, *admission.Request) error
}

// A Check is one named condition of /readyz and /healthz. Check returns nil
// when all is well; its error is logged, never shown to clients.
type Check struct {
	Name  string
	Check func(context.Context) error
}

// Hooks are called as things happen; each may be nil. They must be fast and
// safe for concurrent use.
type Hooks struct {
	// Began is called at the start of every request, with what is known then, and
	// Ended at its end.
	Began, Ended func(RequestSummary)
	// Watching is called with +1 when a watch begins and -1 when it ends.
	Watching func(resource schema.GroupVersionResource, delta int)
	// Admitted is called after each half of the admission of a request.
	Admitted func(AdmissionSummary)
	// Checked is called after each check of /livez, /readyz or /healthz, with the endpoint's name, the
	// check's, and its error.
	Checked func(endpoint, check string, err error)
	// Converted is called after every call of a [Converter].
	Converted func(ConversionSummary)
}

// An AdmissionSummary describes one half of the admission of a request for the hooks.
type AdmissionSummary struct {
	// Validating is set for the half that validates.
	Validating bool
	Operation  admission.Operation
	Took       time.Duration
	// Rejected is set if the request ends with an error.
	Rejected bool
}

// A ConversionSummary describes a call of a [Converter] for the hooks.
type ConversionSummary struct {
	Resource schema.GroupResource
	// From is the version of the objects, and To the one that they are converted to.
	From, To string
	// Objects is the number of objects.
	Objects int
	Took    time.Duration
	// Err is why they could not be converted, or nil. If it has a method ConversionFailure() string, that returns the
	// failure_type in metrics of Kubernetes; an empty one means that no webhook was called.
	Err error
}

// A RequestSummary describes a request for the hooks.
type RequestSummary struct {
	// Verb is as for authorization: list, create ... or the lower-case method; a
	// patch which is a server-side apply is apply.
	Verb string
	// Resource and Subresource are empty for paths that are no resource's, and
	// for resources that are not served.
	Resource    schema.GroupVersionResource
	Subresource string
	// Scope is "resource" for a request about one object, "namespace" or "cluster" for one about
	// many, and empty if Resource is empty.
	Scope string
	// LongRunning is set if the client decides how long the request lasts, as for a watch, or a
	// connection to a container.
	LongRunning bool
	// DryRun is set for a dry run.
	DryRun bool
	// Deprecated is set if the resource is deprecated, and RemovedRelease is the release of Kubernetes that
	// removes it, empty if none does.
	Deprecated     bool
	RemovedRelease string
	// BodyBytes is the size of the request's body, zero if it was not read into memory.
	BodyBytes int64
	// WebhookTime is the time in which the request waited for admission webhooks.
	WebhookTime time.Duration
	// Terminated is set if the server ended the request to protect itself: because of too many requests, or
	// because its time was over.
	Terminated bool
	// Code is the HTTP status.
	Code int
	// Bytes is the size of the response as it was sent.
	Bytes int64
	// Took is the time from the request's headers to the end of the answer.
	Took time.Duration
	// Flow is how flow control has treated the request.
	Flow FlowSummary
}

// Config configures a Server. Store, Authenticator and Authorizer are required.
type Config struct {
	// Store stores the objects.
	Store storage.Store
	// Resources are the served resources.
	Resources []Resource
	// Authenticator identifies the user of a request. Requests that it does not know
	// get 401. The server adds each user that is not anonymous to the group
	// system:authenticated, as [authn.Chain] does: policies such as that of rbac.Bootstrap
	// give that group discovery, without which kubectl does not work.
	Authenticator authn.Authenticator
	// Authorizer decides what users may do. NoOpinion means 403.
	Authorizer authz.Authorizer
	// Admission completes and checks writes; nil admits everything.
	Admission Admission
	// Initializers names the initializers that new objects wait for; nil names none.
	// Without it metadata.initializers is an unknown field, and objects that are stored
	// with it can only be deleted.
	Initializers Initializers

	// Aggregator serves the API groups of other servers, which take precedence over Resources. Nil
	// means none.
	Aggregator Aggregator

	// Prefix begins every storage key; empty is "/registry".
	Prefix string
	// Layout returns the path below Prefix under which the objects of a resource are stored, by
	// namespace, if they have one, and name. Nil means the group, "core" for the core group, and
	// the plural. The Layout of package kube is that of kube-apiserver. It must not change for a
	// store. New returns an error if the objects of two resources could have the same key.
	Layout func(resource schema.GroupResource) string
	// Listener accepts the connections that Run serves; nil serves only through ServeHTTP
	// and Transport.
	Listener net.Listener
	// TLS is for Listener and must have a certificate. Protocols and, where
	// unset, the minimum version (1.2) are filled in on a copy. For client certificates, ClientAuth
	// must be tls.RequestClientCert (the authenticator verifies them) or tls.VerifyClientCertIfGiven:
	// with the zero value, no client sends one.
	TLS *tls.Config
	// InsecurePlainHTTP allows a Listener without TLS.
	InsecurePlainHTTP bool
	// FlowControl decides which requests are handled at once and which wait, for at most 15
	// seconds. Rejected requests get 429. A watch counts until it has sent the existing objects.
	// Run runs FlowControl, so it must not be shared between servers. Nil means the configuration
	// of [flowcontrol.Default] with 600 seats, the sum of what kube-apiserver allows for reads
	// (400) and writes (200). A user who is not anonymous always counts as a member of
	// system:authenticated.
	FlowControl *flowcontrol.Controller
	// MaxBodyBytes bounds the request bodies in memory, except for those of system:masters and of
	// streams such as exec. The bodies of one user may have a fifth of it if there are several. A
	// body that finds no room waits for 15 seconds, then its request gets 429. Zero means 256 MiB.
	MaxBodyBytes int64
	// ShutdownDelay is how long the server continues to serve when Run is to end, while /readyz
	// fails, so that load balancers notice. Zero means no delay.
	ShutdownDelay time.Duration
	// DrainTimeout is how long Run then waits for requests in progress before it cuts them off.
	// Zero means 20 seconds.
	DrainTimeout time.Duration
	// Identities, if set, chooses the UIDs and generated names of new objects, for tests that need
	// the same ones in every run. Nil means random ones.
	Identities Identities
	// Version is served under /version. Empty fields mean v1.36.3+planekit.
	Version version.Info
	// Handlers serve further paths, such as /metrics, after authorization by path and verb. A path
	// that ends with a slash includes all paths below it. The server's own paths take precedence.
	Handlers map[string]http.Handler
	// Checks are part of /readyz and /healthz, in addition to those of the server.
	Checks []Check
	// Auditor records requests; nil means none.
	Auditor Auditor
	// Hooks receive measurements.
	Hooks Hooks
	// Log is silent when zero.
	Log logr.Logger
}

// defaultSeats is the concurrency limit of kube-apiserver.
const defaultSeats = 600

// Server serves resources over HTTP. It is an http.Handler, usable without
// Run, and offers an in-memory client transport. All methods are safe for
// concurrent use.
type Server struct {
	config    Config
	codec     *wire.Codec
	catalog   atomic.Pointer[catalog]
	changing  sync.Mutex // held by Change
	feed      *cache.Feed
	intake    *intake.Budget
	flow      *flowcontrol.Controller
	ready     chan struct{}
	readyOnce sync.Once

	// The parts of the server that need little of it.
	guard        guard
	reader       reader
	admitter     admitter
	initializing initializing
	namer        namer
	responder    responder
	health       health

	// unready is done when Run begins to wind up: /readyz says so, and all is
	// served still.
	unready   context.Context
	beUnready context.CancelFunc
	// stopping is done when Run no longer takes requests; every watch ends then.
	stopping context.Context
	stop     context.CancelFunc
	local    inprocess.Server // serves the clients of Transport
}

// New checks c and prepares a server. It starts nothing.
func New(c Config) (*Server, error) {
	if err := c.check(); err != nil {
		return nil, fmt.Errorf("apiserver: %w", err)
	}
	c.Authenticator = authn.Chain{c.Authenticator} // adds system:authenticated
	c.Prefix = "/" + strings.Trim(cmp.Or(c.Prefix, "/registry"), "/")
	c.MaxBodyBytes = cmp.Or(c.MaxBodyBytes, 256<<20)
	c.DrainTimeout = cmp.Or(c.DrainTimeout, drainTimeout)
	fillVersion(&c.Version)
	s := &Server{config: c, codec: wire.NewCodec(), ready: make(chan struct{})}
	s.intake = intake.New(intake.Config{Bytes: c.MaxBodyBytes, UserReads: userReads, UserWaits: userWaits, Wait: queueTimeout})
	s.unready, s.beUnready = context.WithCancel(context.Background())
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.local.Handler, s.local.Stopping = s.serveUser, s.stopping
	var err error
	if s.flow = c.FlowControl; s.flow == nil {
		if s.flow, err = flowcontrol.NewController(flowcontrol.Default(defaultSeats)); err != nil {
			return nil, fmt.Errorf("apiserver: %w", err)
		}
	}
	if s.feed, err = cache.NewFeed(cache.FeedConfig{Store: c.Store, Prefix: storage.Key(c.Prefix + "/"), Log: c.Log}); err != nil {
		return nil, fmt.Errorf("apiserver: %w", err)
	}
	t, err := newCatalog(&c, s.codec, s.feed)
	if err != nil {
		return nil, fmt.Errorf("apiserver: %w", err)
	}
	s.addParts()
	t.documents = documents.New(t, &s.responder.Writer, c.Version.GitVersion)
	s.catalog.Store(t)
	return s, nil
}

// addParts makes the parts of the server out of its configuration.
func (s *Server) addParts() {
	c := &s.config
	s.guard = guard{authenticator: c.Authenticator, authorizer: c.Authorizer, log: c.Log}
	s.reader = reader{store: c.Store, feed: s.feed, log: c.Log}
	s.admitter = admitter{plugins: c.Admission, report: c.Hooks.Admitted}
	s.namer = namer{identities: c.Identities}
	s.responder = responder{reply.Writer{Codec: s.codec, Log: c.Log}}
	s.initializing = initializing{initializers: c.Initializers, store: c.Store, stopping: s.stopping, guard: &s.guard}
	s.health = health{config: c, unready: s.unready, replies: &s.responder.Writer}
}

func (c *Config) check() error {
	switch {
	case c.Store == nil:
		return errors.New("Config.Store must be set")
	case c.Authenticator == nil:
		return errors.New("Config.Authenticator must be set")
	case c.Authorizer == nil:
		return errors.New("Config.Authorizer must be set")
	case c.ShutdownDelay < 0 || c.DrainTimeout < 0:
		return errors.New("ShutdownDelay or DrainTimeout is negative")
	case c.MaxBodyBytes < 0:
		return errors.New("MaxBodyBytes is negative")
	case c.Listener != nil && c.TLS == nil && !c.InsecurePlainHTTP:
		return errors.New("a listener without TLS needs InsecurePlainHTTP")
	}
	for path, handler := range c.Handlers {
		if !strings.HasPrefix(path, "/") || len(path) < 2 || handler == nil {
			return fmt.Errorf("handler of %q: a path below / and a handler must be given", path)
		}
	}
	return nil
}

func fillVersion(v *version.Info) {
	v.Major = cmp.Or(v.Major, "1")
	v.Minor = cmp.Or(v.Minor, "36")
	v.GitVersion = cmp.Or(v.GitVersion, "v1.36.3+planekit")
	v.GoVersion = cmp.Or(v.GoVersion, goruntime.Version())
	v.Compiler = cmp.Or(v.Compiler, goruntime.Compiler)
	v.Platform = cmp.Or(v.Platform, goruntime.GOOS+"/"+goruntime.GOARCH)
}

// Ready is closed once Run serves.
func (s *Server) Ready() <-chan struct{} { return s.ready }

// Version returns the version that the server says it has.
func (s *Server) Version() version.Info { return s.config.Version }

// Transport returns a client transport into this server for u. It skips the
// wire and authentication, and nothing else: authorization, admission and codecs
// are those of any request. Requests need no particular
// host or scheme. It works with and without Run; requests end with their
// context, watches also when Run winds up.
func (s *Server) Transport(u *user.Info) http.RoundTripper { return s.local.Transport(u) }
