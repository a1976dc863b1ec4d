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
	"github.com/planekit/planekit/kubelet/volumestats"
	"github.com/planekit/planekit/localcache"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// StreamLimits bounds the life of an upgraded connection. Zero fields have defaults.
type StreamLimits = upgraded.Limits

// Config configures a Server. All fields but ReadOnly, NodeName, MirrorUID, DialStream, VolumeStats, Metrics, ProbeMetrics,
// Configuration, NoDebugging, Streams, MaxStreams and Log are required.
type Config struct {
	// ReadOnly makes the server one without TLS and credentials, as readOnlyPort of Kubernetes' kubelet does:
	// it has health, pods, statistics and metrics for everybody, and neither logs, exec, attach, port-forward
	// nor the configuration. TLS, Authenticate and Authorize must then be nil.
	ReadOnly bool
	// Listener is the listener for Run. The server closes it.
	Listener net.Listener
	// TLS has the serving certificate. Clients are asked for certificates, which Authenticate must
	// verify.
	TLS *tls.Config
	// Authenticate returns the user that sent a request. An empty name or an error means that the
	// credentials are missing or invalid. Errors must not contain credentials.
	Authenticate func(*http.Request) (name string, groups []string, err error)
	// Authorize reports whether a user may use verb (get, create, update, patch or delete) on a
	// subresource of this node; see Rights above. An error means that the authorizer has failed:
	// the client gets 500 and the error is logged.
	Authorize func(ctx context.Context, name string, groups []string, verb, subresource string) (bool, error)
	// NodeName is the name of the node in statistics.
	NodeName string
	// Pods is the cache of the node's pods.
	Pods localcache.Reader[*corev1.Pod]
	// MirrorUID returns the UID that a static pod has in the API, which requests may name; false if
	// it has none. Nil means that there are no static pods.
	MirrorUID func(pod *corev1.Pod) (types.UID, bool)
	// Runtime is the container runtime.
	Runtime Runtime
	// DialStream connects to the address in a URL that Runtime has given for streams. Nil means
	// over TCP. A runtime in this process may have no other way.
	DialStream func(ctx context.Context, network, address string) (net.Conn, error)
	// LogRoot is the absolute path of the directory of all logs. It is created if missing.
	LogRoot string
	// VolumeStats returns the statistics of the volumes of a pod; a kubelet.Kubelet has them. It must return
	// soon when ctx is done. Nil means that there are none.
	VolumeStats func(ctx context.Context, pod *corev1.Pod) []volumestats.Stats
	// Metrics serves /metrics; package kubelet/metrics has one. Nil means 404.
	Metrics http.Handler
	// ProbeMetrics serves /metrics/probes; package probe/metrics has one. Nil means 404.
	ProbeMetrics http.Handler
	// Configuration returns the node agent's configuration for /configz, which must have a JSON
	// form without secrets. Nil means 404.
	Configuration func() any
	// NoDebugging answers requests for logs, exec, attach and port-forward with 405, as the Kubernetes kubelet
	// without enableDebuggingHandlers does.
	NoDebugging bool
	// Streams bounds the life of upgraded connections, and MaxStreams their number. Zero means
	// 1000.
	Streams    StreamLimits
	MaxStreams int
	// Log is the server's log. The zero Logger discards it.
	Log logr.Logger
}

// Runtime is the container runtime that the server requires, with CRI's semantics and gRPC codes.
// Exec, Attach and PortForward return the URL of their streams. Package cri has an implementation.
type Runtime interface {
	ListPodSandbox(context.Context, *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error)
	ContainerStatus(context.Context, *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error)
	ListContainerStats(context.Context, *runtimeapi.ListContainerStatsRequest) (*runtimeapi.ListContainerStatsResponse, error)
	Exec(context.Context, *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error)
	Attach(context.Context, *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error)
	PortForward(context.Context, *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error)
}

// Limits of the HTTP server. A client that sends its headers too slowly is cut off.
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
	// stopping is done when Run stops, which ends the streams.
	stopping context.Context
	stop     context.CancelFunc
	streams  *http.Transport
	open     upgraded.Counter // of streams
	starts   starts
	rates    rates

	mu      sync.Mutex
	ran     bool
	ended   bool           // guarded by mu: no further requests are accepted
	serving sync.WaitGroup // requests and their connections; Add under mu
}

// New returns a server. It does not touch the disk or the listener.
func New(c Config) (*Server, error) {
	switch {
	case c.ReadOnly && (c.TLS != nil || c.Authenticate != nil || c.Authorize != nil):
		return nil, errors.New("kubelet server: ReadOnly goes without TLS, Authenticate and Authorize")
	case c.Listener == nil:
		return nil, errors.New("kubelet server: Listener is missing")
	case !c.ReadOnly && (c.TLS == nil || len(c.TLS.Certificates) == 0 && c.TLS.GetCertificate == nil):
		return nil, errors.New("kubelet server: TLS has no certificate")
	case !c.ReadOnly && (c.Authenticate == nil || c.Authorize == nil):
		return nil, errors.New("kubelet server: Authenticate or Authorize is missing")
	case c.Pods == nil || c.Runtime == nil:
		return nil, errors.New("kubelet server: Pods or Runtime is missing")
	case c.MaxStreams < 0:
		return nil, errors.New("kubelet server: MaxStreams is negative")
	case !filepath.IsAbs(c.LogRoot):
		return nil, fmt.Errorf("kubelet server: LogRoot %q is not an absolute path", c.LogRoot)
	}
	if c.ReadOnly {
		c.NoDebugging, c.Configuration = true, nil
	}
	if c.MaxStreams == 0 {
		c.MaxStreams = defaultMaxStreams
	}
	s := &Server{config: c, streams: streamTransport(c.DialStream)}
	s.stopping, s.stop = context.WithCancel(context.Background())
	s.routes = s.newRoutes()
	return s, nil
}

// Run serves until ctx is done, and then ends the streams. It may be called once.
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
	server := &http.Server{
		Handler:           s,
		MaxHeaderBytes:    maxHeaderBytes,
		ReadHeaderTimeout: readHeaderTimeout,
		IdleTimeout:       idleTimeout,
		ErrorLog:          stdlog.New(logWriter{s.config.Log}, "", 0),
	}
	failed := make(chan error, 1)
	go func() { failed <- s.serve(server) }()
	var err error
	select {
	case err = <-failed:
		// ServeTLS leaves the listener open if it refuses the settings.
		s.config.Listener.Close()
		err = fmt.Errorf("kubelet server: %w", err)
		s.drain(server)
	case <-ctx.Done():
		s.drain(server)
		<-failed
	}
	return err
}

// serve serves requests until server is shut down.
func (s *Server) serve(server *http.Server) error {
	if s.config.ReadOnly {
		return server.Serve(s.config.Listener)
	}
	config := s.config.TLS.Clone()
	config.ClientAuth = max(config.ClientAuth, tls.RequestClientCert)
	config.MinVersion = max(config.MinVersion, tls.VersionTLS12)
	server.TLSConfig = config
	return server.ServeTLS(s.config.Listener, "", "")
}

// drain ends all streams and waits for the requests in progress.
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
	if r.URL.Path != "/healthz" && !s.config.ReadOnly && !s.permit(w, r) {
		return
	}
	s.routes.ServeHTTP(w, r)
}

type logWriter struct{ log logr.Logger }

func (w logWriter) Write(line []byte) (int, error) {
	w.log.V(1).Info("http", "message", string(line))
	return len(line), nil
}
