package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/internal/upgraded"
	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// StreamLimits bound the life of an upgraded connection. Zero fields have the
// defaults.
type StreamLimits = upgraded.Limits

// Config describes a server. All but NodeName, Streams, MaxStreams and Log must be set.
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
	// delete) on a subresource of this node, see Rights above. An error means that it could
	// not be found out: the client gets 500 whatever the answer, and the log the error.
	Authorize func(ctx context.Context, name string, groups []string, verb, subresource string) (bool, error)
	// NodeName is what statistics call the node.
	NodeName string
	// Pods are those of this node.
	Pods localcache.Reader[*corev1.Pod]
	// Runtime runs them.
	Runtime Runtime
	// LogRoot is the absolute directory below which all logs are. It is made
	// where it is missing.
	LogRoot string
	// Streams bounds the life of upgraded connections, and MaxStreams how many there
	// are at a time. Zero is 1000.
	Streams    StreamLimits
	MaxStreams int
	// Log is silent when zero.
	Log logr.Logger
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
	defaultMaxStreams = 1000
)

// Server is a kubelet's server.
type Server struct {
	config Config
	routes *http.ServeMux
	// stopping is done when Run winds up: streams end then.
	stopping context.Context
	stop     context.CancelFunc
	streams  *http.Transport
	open     upgraded.Counter // of streams
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
	case c.MaxStreams < 0:
		return nil, errors.New("kubelet server: MaxStreams is negative")
	case !filepath.IsAbs(c.LogRoot):
		return nil, fmt.Errorf("kubelet server: LogRoot %q is not an absolute path", c.LogRoot)
	}
	if c.MaxStreams == 0 {
		c.MaxStreams = defaultMaxStreams
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

type logWriter struct{ log logr.Logger }

func (w logWriter) Write(line []byte) (int, error) {
	w.log.V(1).Info("http", "message", string(line))
	return len(line), nil
}
