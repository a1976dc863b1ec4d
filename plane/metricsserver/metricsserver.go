// Package metricsserver runs a server of metrics.k8s.io in the process of a control plane, and
// registers it there as an aggregated API, so that kubectl top works:
//
//	config := plane.Config{Parts: []plane.Part{metricsserver.Part(metricsserver.Config{}), nodes.InMemory(dir, 3)}}
//
// It serves on a free port of the loopback address, to the control plane's front proxy alone, and
// asks the control plane's authorizers about its users. At the kubelets it is the user
// system:metrics-server, whose role allows it to read their metrics and no more.
//
// # Objects
//
// As with metrics-server, the APIService v1beta1.metrics.k8s.io leads to the Service
// kube-system/metrics-server, and the ClusterRole system:aggregated-metrics-reader adds reading
// metrics to the roles view, edit and admin. The Service is one of type ExternalName that leads to
// localhost. All are put right at every start. If there is an APIService of the name that does not
// bear the label app.kubernetes.io/managed-by: planekit, it leads to a metrics server of the user's
// own: it is left alone, and this server is not started.
//
// # Left out
//
// Several control planes on one store: each would register its own server.
//
// # Failure
//
// The objects are written while further parts start, which need not wait for kubectl top. Writes
// that fail, for example because the disk is full, are tried again. Package metricsapi says what happens when kubelets do
// not answer.
package metricsserver

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	stdlog "log"
	"net"
	"net/http"
	"time"

	"github.com/go-logr/logr"
	"github.com/planekit/planekit/authn"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/metricsapi"
	"github.com/planekit/planekit/plane"
	"github.com/planekit/planekit/plane/stack"
)

// Config configures the metrics server. Every field may be zero.
type Config struct {
	// Resolution is the time between two questions to a kubelet; zero means 15 seconds.
	Resolution time.Duration
	// Log is silent when zero.
	Log logr.Logger
}

// host is the name in the certificate, by which the aggregator verifies the server.
const host = name + "." + namespace + ".svc"

// maxDelay bounds the time between two attempts to register.
const maxDelay = 10 * time.Second

// Limits of the HTTP server.
const (
	readTimeout    = 10 * time.Second
	idleTimeout    = 90 * time.Second
	maxHeaderBytes = 64 << 10
	drainTimeout   = 5 * time.Second
)

// Part returns the part of a control plane that runs the metrics server.
func Part(c Config) plane.Part {
	return func(ctx context.Context, p *plane.Plane, s *stack.Stack) error {
		if other, err := taken(ctx, p.Client()); err != nil || other {
			c.Log.V(1).Info("another metrics server is registered", "registered", other)
			return err
		}
		authority := p.Credentials.Authority
		client, err := authority.Client("metrics-server-kubelet-client", plane.MetricsServer)
		if err != nil {
			return err
		}
		kubelets := &metricsapi.Kubelets{TLS: p.Credentials.KubeletTLS(client), MayDial: p.MayDialNode(), Dial: p.NodeDialer()}
		api, err := metricsapi.New(metricsapi.Config{
			Nodes: p.Caches.Nodes, Pods: p.Caches.Pods, Kubelets: kubelets, Resolution: c.Resolution, Log: c.Log,
		})
		if err != nil {
			return err
		}
		proxies, err := p.Credentials.FrontProxies()
		if err != nil {
			return err
		}
		serving, err := authority.Serving("metrics-server", host)
		if err != nil {
			return err
		}
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return fmt.Errorf("metrics server: %w", err)
		}
		server := &http.Server{
			Handler:           authn.Handler(authz.Handler(api, p.Authorizers.Authorizer, metricsapi.Attributes), proxies),
			TLSConfig:         &tls.Config{MinVersion: tls.VersionTLS12, GetCertificate: serving.Live().Certificate, ClientAuth: tls.RequestClientCert},
			ReadHeaderTimeout: readTimeout, ReadTimeout: readTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeaderBytes,
			ErrorLog: stdlog.New(logWriter{c.Log}, "", 0),
		}
		s.OnStop("connections of the metrics server", func() error { kubelets.Close(); return nil })
		s.Start("metrics server", func(ctx context.Context) error { return serve(ctx, server, listener) })
		s.Start("metrics of nodes", api.Run)
		port := int32(listener.Addr().(*net.TCPAddr).Port)
		s.Start("registration of the metrics server", func(ctx context.Context) error {
			c.keepTrying(ctx, func() error { return register(ctx, p.Client(), port, authority.CertificatePEM) })
			<-ctx.Done()
			return nil
		})
		return nil
	}
}

// keepTrying calls do at growing intervals until it succeeds or ctx is done. Its first failure is
// logged.
func (c *Config) keepTrying(ctx context.Context, do func() error) {
	for delay := 100 * time.Millisecond; ; delay = min(2*delay, maxDelay) {
		err := do()
		if err == nil || ctx.Err() != nil {
			return
		}
		if delay < 200*time.Millisecond {
			c.Log.Info("the metrics server cannot be registered yet", "error", err.Error())
		}
		select {
		case <-time.After(delay):
		case <-ctx.Done():
		}
	}
}

// serve serves until ctx is done.
func serve(ctx context.Context, server *http.Server, listener net.Listener) error {
	failed := make(chan error, 1)
	go func() { failed <- server.ServeTLS(listener, "", "") }()
	select {
	case err := <-failed:
		return fmt.Errorf("metrics server: %w", err)
	case <-ctx.Done():
	}
	drain, cancel := context.WithTimeout(context.WithoutCancel(ctx), drainTimeout)
	defer cancel()
	err := server.Shutdown(drain)
	if err != nil {
		err = server.Close()
	}
	if ended := <-failed; !errors.Is(ended, http.ErrServerClosed) {
		err = errors.Join(err, ended)
	}
	return err
}

type logWriter struct{ log logr.Logger }

func (w logWriter) Write(line []byte) (int, error) {
	w.log.V(1).Info("http", "message", string(line))
	return len(line), nil
}
