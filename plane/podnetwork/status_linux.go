package podnetwork

import (
	"context"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/planekit/planekit/plane/stack"
)

// The ports at which kube-proxy has the same.
const (
	// HealthPort is where load balancers ask about a node, at all of its addresses.
	HealthPort = 10256
	// MetricsPort is where metrics are, at the loopback address.
	MetricsPort = 10249
)

// Bounds of the servers of health and metrics.
const (
	statusTimeout     = 10 * time.Second
	maxStatusHeader   = 8 << 10 // bytes
	statusIdleTimeout = time.Minute
)

// startStatus serves the health of the service proxy and the metrics of what runs on the node.
func startStatus(s *stack.Stack, health http.Handler, metrics prometheus.Gatherer, log logr.Logger) error {
	for _, one := range []struct {
		name, address string
		handler       http.Handler
	}{
		{"health of services", fmt.Sprintf(":%d", HealthPort), health},
		{"metrics of the network", fmt.Sprintf("127.0.0.1:%d", MetricsPort), metricsHandler(metrics)},
	} {
		listener, err := net.Listen("tcp", one.address)
		if err != nil {
			return fmt.Errorf("%s: %w", one.name, err)
		}
		s.OnStop("listener of the "+one.name, func() error { listener.Close(); return nil })
		s.Start(one.name, func(ctx context.Context) error { return serve(ctx, listener, one.handler, log) })
	}
	return nil
}

// metricsHandler serves /metrics, and /proxyMode, by which tests of Kubernetes know how services are proxied.
func metricsHandler(metrics prometheus.Gatherer) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	mux.HandleFunc("GET /proxyMode", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "nftables") })
	return mux
}

// serve answers requests until ctx is done.
func serve(ctx context.Context, listener net.Listener, handler http.Handler, log logr.Logger) error {
	server := &http.Server{
		Handler: handler, ReadTimeout: statusTimeout, WriteTimeout: statusTimeout, IdleTimeout: statusIdleTimeout, MaxHeaderBytes: maxStatusHeader,
		ErrorLog: stdlog.New(logWriter{log}, "", 0),
	}
	defer context.AfterFunc(ctx, func() { server.Close() })()
	if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// logWriter writes what a server says of connections to a log.
type logWriter struct{ log logr.Logger }

func (w logWriter) Write(line []byte) (int, error) {
	w.log.V(1).Info("connection", "message", strings.TrimSpace(string(line)))
	return len(line), nil
}
