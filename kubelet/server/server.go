package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"iter"
	stdlog "log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Config describes a server. All but NodeName, StreamIdle and Log must be set.
type Config struct {
	// Listener is where Run serves. The server closes it.
	Listener net.Listener
	// TLS has the serving certificate. Clients are asked for certificates, which
	// it is for Authenticate to verify.
	TLS *tls.Config
	// Authenticate tells who sent a request. An empty name or an error means
	// that the request has no credentials or bad ones. Errors must not contain
	// credentials.
	Authenticate func(*http.Request) (name string, groups []string, err error)
	// Authorize tells whether a user may use verb (get, create, update, patch or
	// delete, by the method) on a subresource of this node: stats for statistics,
	// proxy for all else. An error means that it could not be found out: the client
	// gets 500 whatever the answer, and the log the error.
	Authorize func(ctx context.Context, name string, groups []string, verb, subresource string) (bool, error)
	// NodeName is what statistics call the node.
	NodeName string
	// Pods are those of this node.
	Pods Pods
	// Runtime runs them.
	Runtime Runtime
	// LogRoot is the absolute directory below which all logs are. It is made
	// where it is missing.
	LogRoot string
	// StreamIdle is how long nothing may move on an upgraded connection. Zero is
	// 4 hours.
	StreamIdle time.Duration
	// Log is silent when zero.
	Log logr.Logger
}

// Pods is a local copy of the pods of the node. They are shared and are not
// changed. Methods must be safe for concurrent use.
type Pods interface {
	// Get finds a pod by "namespace/name".
	Get(key string) (*corev1.Pod, bool)
	All() iter.Seq[*corev1.Pod]
}

// Runtime is what is needed of a container runtime, with CRI's meaning and gRPC
// codes. Exec, Attach and PortForward return a URL that the caller upgrades a
// connection to. Package cri has one.
type Runtime interface {
	ListPodSandbox(context.Context, *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error)
	ContainerStatus(context.Context, *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error)
	ListContainerStats(context.Context, *runtimeapi.ListContainerStatsRequest) (*runtimeapi.ListContainerStatsResponse, error)
	Exec(context.Context, *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error)
	Attach(context.Context, *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error)
	PortForward(context.Context, *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error)
}

// Limits of the HTTP server: a client that is slow with its headers is cut off.
const (
	maxHeaderBytes    = 1 << 20
	readHeaderTimeout = 32 * time.Second
	idleTimeout       = 90 * time.Second
	drainTimeout      = 5 * time.Second
	defaultStreamIdle = 4 * time.Hour
)

// Server is a kubelet's server.
type Server struct {
	config Config
	routes *http.ServeMux
	// stopping is done when Run winds up: streams end then.
	stopping context.Context
	stop     context.CancelFunc
	streams  *http.Transport
	rates    rates

	mu      sync.Mutex
	ran     bool
	ended   bool           // guarded by mu: no request is let in any more
	serving sync.WaitGroup // requests, and connections made of them; Add under mu
}

// New checks the configuration. It serves nothing and touches nothing.
func New(c Config) (*Server, error) {
	switch {
	case c.Listener == nil:
		return nil, errors.New("kubelet server: Listener is missing")
	case c.TLS == nil || len(c.TLS.Certificates) == 0 && c.TLS.GetCertificate == nil:
		return nil, errors.New("kubelet server: TLS has no certificate")
	case c.Authenticate == nil || c.Authorize == nil:
		return nil, errors.New("kubelet server: Authenticate or Authorize is missing")
	case c.Pods == nil || c.Runtime == nil:
		return nil, errors.New("kubelet server: Pods or Runtime is missing")
	case !filepath.IsAbs(c.LogRoot):
		return nil, fmt.Errorf("kubelet server: LogRoot %q is not an absolute path", c.LogRoot)
	}
	if c.StreamIdle == 0 {
		c.StreamIdle = defaultStreamIdle
	}
	s := &Server{config: c, streams: streamTransport()}
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.routes = s.newRoutes()
	return s, nil
}

// Run serves until ctx is done; streams end then. A server runs once.
func (s *Server) Run(ctx context.Context) error {
	s.mu.Lock()
	again := s.ran
	s.ran = true
	s.mu.Unlock()
	if again {
		return errors.New("kubelet server: run twice")
	}
	if err := os.MkdirAll(s.config.LogRoot, 0o755); err != nil {
		return errors.Join(fmt.Errorf("kubelet server: %w", err), s.config.Listener.Close())
	}
	config := s.config.TLS.Clone()
	config.ClientAuth = max(config.ClientAuth, tls.RequestClientCert)
	config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
	server := &http.Server{
		Handler:           s,
		TLSConfig:         config,
		MaxHeaderBytes:    maxHeaderBytes,
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		ErrorLog:          stdlog.New(logWriter{s.config.Log}, "", 0),
	}
	failed := make(chan error, 1)
	go func() { failed <- server.ServeTLS(s.config.Listener, "", "") }()
	var err error
	select {
	case err = <-failed:
		err = fmt.Errorf("kubelet server: %w", err)
		s.drain(server)
	case <-ctx.Done():
		s.drain(server)
		<-failed
	}
	return err
}

// drain ends all streams and waits for the requests in flight.
func (s *Server) drain(server *http.Server) {
	s.stop()
	s.mu.Lock()
	s.ended = true
	s.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), drainTimeout)
	defer cancel()
	if server.Shutdown(ctx) != nil {
		server.Close()
	}
	s.serving.Wait()
	s.streams.CloseIdleConnections()
}

// ServeHTTP authenticates, authorizes and serves a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	ended := s.ended
	if !ended {
		s.serving.Add(1)
	}
	s.mu.Unlock()
	if ended {
		http.Error(w, "the kubelet is shutting down", http.StatusServiceUnavailable)
		return
	}
	defer s.serving.Done()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(s.stopping, cancel)()
	r = r.WithContext(ctx)
	if r.URL.Path != "/healthz" && !s.permit(w, r) {
		return
	}
	s.routes.ServeHTTP(w, r)
}

// verbs are what methods are authorized as.
var verbs = map[string]string{
	http.MethodGet: "get", http.MethodHead: "get", http.MethodPost: "create",
	http.MethodPut: "update", http.MethodPatch: "patch", http.MethodDelete: "delete",
}

// permit answers requests that may not go on, and reports whether this one may.
// Statistics are authorized as the subresource stats of the node, all else as proxy
// (https://kubernetes.io/docs/reference/access-authn-authz/kubelet-authn-authz/).
func (s *Server) permit(w http.ResponseWriter, r *http.Request) bool {
	subresource := "proxy"
	if strings.HasPrefix(r.URL.Path, "/stats/") {
		subresource = "stats"
	}
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
	allowed, err := s.config.Authorize(r.Context(), name, groups, verb, subresource)
	switch {
	case err != nil: // which says nothing about the user
		s.config.Log.Error(err, "authorization failed", "user", name, "verb", verb, "subresource", subresource)
		http.Error(w, fmt.Sprintf("Authorization error (user=%s, verb=%s, resource=nodes, subresource=%s)", name, verb, subresource), http.StatusInternalServerError)
	case !allowed:
		http.Error(w, fmt.Sprintf("Forbidden (user=%s, verb=%s, resource=nodes, subresource(s)=[%s])", name, verb, subresource), http.StatusForbidden)
	}
	return err == nil && allowed
}

type logWriter struct{ log logr.Logger }

func (w logWriter) Write(line []byte) (int, error) {
	w.log.V(1).Info("http", "message", string(line))
	return len(line), nil
}
