package proxy

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
)

// healthChecks serves the health check node ports of services.
type healthChecks struct {
	healthy func() bool
	events  Recorder
	node    string
	log     logr.Logger
	// open belongs to the goroutine of Run.
	open map[string]*healthCheck
	wg   sync.WaitGroup
}

// healthCheck is the server of one service.
type healthCheck struct {
	namespace, name string
	port            uint16
	endpoints       atomic.Int64
	healthy         func() bool
	server          *http.Server
}

func newHealthChecks(healthy func() bool, events Recorder, node string, log logr.Logger) *healthChecks {
	return &healthChecks{healthy: healthy, events: events, node: node, log: log, open: map[string]*healthCheck{}}
}

// sync opens, closes and updates the servers of services that changed. One that cannot be opened is
// tried again when the service changes.
func (h *healthChecks) sync(updates []update, node string) {
	for _, u := range updates {
		var port uint16
		if u.service != nil {
			port = HealthCheckNodePort(u.service)
		}
		have := h.open[u.key]
		if have != nil && have.port != port {
			h.stop(have)
			delete(h.open, u.key)
			have = nil
		}
		if port == 0 {
			continue
		}
		if have == nil {
			have = h.start(u.service, port)
			if have == nil {
				continue
			}
			h.open[u.key] = have
		}
		have.endpoints.Store(int64(localReady(endpointsOf(u.slices, node))))
	}
}

func (h *healthChecks) start(s *corev1.Service, port uint16) *healthCheck {
	c := &healthCheck{namespace: s.Namespace, name: s.Name, port: port, healthy: h.healthy}
	l, err := net.Listen("tcp", ":"+strconv.Itoa(int(port)))
	if err != nil {
		message := fmt.Sprintf("node %s failed to start healthcheck %q on port %d: %v", h.node, s.Namespace+"/"+s.Name, port, err)
		h.log.Error(err, "could not serve a health check node port", "service", s.Namespace+"/"+s.Name, "port", port)
		if h.events != nil {
			h.events.Event(s, corev1.EventTypeWarning, "FailedToStartServiceHealthcheck", message)
		}
		return nil
	}
	c.server = &http.Server{Handler: c, ReadHeaderTimeout: 10 * time.Second, ReadTimeout: 10 * time.Second, MaxHeaderBytes: 64 << 10}
	h.wg.Go(func() {
		if err := c.server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			h.log.Error(err, "a health check node port ended", "port", port)
		}
	})
	return c
}

func (h *healthChecks) stop(c *healthCheck) {
	if err := c.server.Close(); err != nil {
		h.log.Error(err, "could not close a health check node port", "port", c.port)
	}
}

func (h *healthChecks) close() {
	for _, c := range h.open {
		h.stop(c)
	}
	h.wg.Wait()
}

// ServeHTTP answers as kube-proxy: 200 if the node has an endpoint and the proxy is healthy.
func (c *healthCheck) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	count, healthy := c.endpoints.Load(), c.healthy()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("X-Content-Type-Options", "nosniff")
	w.Header().Set("X-Load-Balancing-Endpoint-Weight", strconv.FormatInt(count, 10))
	if count == 0 || !healthy {
		w.WriteHeader(http.StatusServiceUnavailable)
	}
	const format = "{\n\t\"service\": {\n\t\t\"namespace\": %q,\n\t\t\"name\": %q\n\t},\n\t\"localEndpoints\": %d,\n\t\"serviceProxyHealthy\": %v\n}"
	fmt.Fprintf(w, format, c.namespace, c.name, count, healthy)
}
