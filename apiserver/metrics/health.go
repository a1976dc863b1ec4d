package metrics

import (
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// checks holds the results of health checks. kube-apiserver has them at a path of their own, so that they can be
// scraped more often than the rest.
type checks struct {
	registry *prometheus.Registry
	last     *prometheus.GaugeVec
	all      *prometheus.CounterVec
}

func newChecks() checks {
	c := checks{
		registry: prometheus.NewRegistry(),
		last: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "kubernetes_healthcheck",
			Help: "This metric records the result of a single healthcheck."}, []string{"name", "type"}),
		all: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "kubernetes_healthchecks_total",
			Help: "This metric records the results of all healthcheck."}, []string{"name", "type", "status"}),
	}
	c.registry.MustRegister(c.last, c.all)
	return c
}

// observe is called after each check of an endpoint such as readyz.
func (c *checks) observe(endpoint, check string, err error) {
	well, status := 1.0, "success"
	if err != nil {
		well, status = 0, "error"
	}
	c.last.WithLabelValues(check, endpoint).Set(well)
	c.all.WithLabelValues(check, endpoint, status).Inc()
}

// DescribeSLIs sends the descriptors of the metrics at [Metrics.SLIs].
func (m *Metrics) DescribeSLIs(to chan<- *prometheus.Desc) { m.checks.registry.Describe(to) }

// SLIs serves the results of health checks, which kube-apiserver has at /metrics/slis.
func (m *Metrics) SLIs() http.Handler {
	return promhttp.HandlerFor(m.checks.registry, promhttp.HandlerOpts{})
}
