// Package metrics exports a service proxy to Prometheus, under the names that kube-proxy has at /metrics.
//
//	m := metrics.New()
//	registry.MustRegister(m)
//	p, err := proxy.New(proxy.Config{Meters: m.Meters(), ...})
//
// The series are kubeproxy_sync_proxy_rules_duration_seconds, kubeproxy_sync_full_proxy_rules_duration_seconds and
// kubeproxy_sync_partial_proxy_rules_duration_seconds, kubeproxy_sync_proxy_rules_last_timestamp_seconds and
// kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds, kubeproxy_network_programming_duration_seconds,
// kubeproxy_sync_proxy_rules_nftables_sync_failures_total, kubeproxy_sync_proxy_rules_no_local_endpoints_total by
// traffic_policy, kubeproxy_conntrack_reconciler_deleted_entries_total, kubeproxy_proxy_healthz_total and
// kubeproxy_proxy_livez_total by code. Both address families are written in one transaction, so that there is no
// label ip_family. planekit adds planekit_proxy_repaired_total, planekit_proxy_conntrack_entries and
// planekit_proxy_conntrack_limit.
package metrics

import (
	"slices"
	"strconv"
	"time"

	"github.com/planekit/planekit/service/proxy"
	"github.com/prometheus/client_golang/prometheus"
)

// These are kube-proxy's buckets.
var (
	syncSeconds        = prometheus.ExponentialBuckets(0.001, 2, 15)
	programmingSeconds = slices.Concat(prometheus.LinearBuckets(0.25, 0.25, 2), prometheus.LinearBuckets(1, 1, 59),
		prometheus.LinearBuckets(60, 5, 12), prometheus.LinearBuckets(120, 30, 7))
)

// Metrics is a prometheus.Collector of one proxy. It is safe for concurrent use.
type Metrics struct {
	sync, full, partial, programming prometheus.Histogram
	last, queued, connections, limit prometheus.Gauge
	failures, repaired, forgotten    prometheus.Counter
	noLocal                          *prometheus.GaugeVec
	healthz, livez                   *prometheus.CounterVec
}

// New returns Metrics without observations. The caller registers them.
func New() *Metrics {
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: "kubeproxy_" + name, Help: help, Buckets: buckets})
	}
	gauge := func(name, help string) prometheus.Gauge {
		return prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help})
	}
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	codes := func(name, help string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "kubeproxy_" + name, Help: help}, []string{"code"})
	}
	return &Metrics{
		sync:        histogram("sync_proxy_rules_duration_seconds", "Time in seconds of a write of changed rules.", syncSeconds),
		full:        histogram("sync_full_proxy_rules_duration_seconds", "Time in seconds of a write of all rules.", syncSeconds),
		partial:     histogram("sync_partial_proxy_rules_duration_seconds", "Time in seconds of a write of the rules of changed services.", syncSeconds),
		programming: histogram("network_programming_duration_seconds", "Time in seconds from the change of a pod or service until its rules were written.", programmingSeconds),
		last:        gauge("kubeproxy_sync_proxy_rules_last_timestamp_seconds", "When rules were last written."),
		queued:      gauge("kubeproxy_sync_proxy_rules_last_queued_timestamp_seconds", "When a change was last queued."),
		connections: gauge("planekit_proxy_conntrack_entries", "Connections in the kernel's table."),
		limit:       gauge("planekit_proxy_conntrack_limit", "Connections that the kernel's table can hold."),
		failures:    counter("kubeproxy_sync_proxy_rules_nftables_sync_failures_total", "Writes of rules that failed."),
		repaired:    counter("planekit_proxy_repaired_total", "Chains, sets and elements that another program had changed."),
		forgotten:   counter("kubeproxy_conntrack_reconciler_deleted_entries_total", "Conntrack entries of ended UDP flows that were removed."),
		noLocal: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "kubeproxy_sync_proxy_rules_no_local_endpoints_total",
			Help: "Service ports with a policy Local and no endpoint on the node."}, []string{"traffic_policy"}),
		healthz: codes("proxy_healthz_total", "Answers of /healthz by code."),
		livez:   codes("proxy_livez_total", "Answers of /livez by code."),
	}
}

// Meters returns the functions that a proxy calls.
func (m *Metrics) Meters() proxy.Meters {
	return proxy.Meters{
		Queued: m.queued.SetToCurrentTime,
		Synced: func(took time.Duration, first bool) {
			m.sync.Observe(took.Seconds())
			if first {
				m.full.Observe(took.Seconds())
			} else {
				m.partial.Observe(took.Seconds())
			}
			m.last.SetToCurrentTime()
		},
		Programmed: func(took time.Duration) { m.programming.Observe(took.Seconds()) },
		NoLocalEndpoints: func(internal, external int) {
			m.noLocal.WithLabelValues("internal").Set(float64(internal))
			m.noLocal.WithLabelValues("external").Set(float64(external))
		},
		Failed:   m.failures.Inc,
		Repaired: func(parts int) { m.repaired.Add(float64(parts)) },
		Forgot:   func(entries int) { m.forgotten.Add(float64(entries)) },
		Connections: func(count, limit int) {
			m.connections.Set(float64(count))
			m.limit.Set(float64(limit))
		},
		Health: func(path string, code int) {
			answers := m.livez
			if path == "/healthz" {
				answers = m.healthz
			}
			answers.WithLabelValues(strconv.Itoa(code)).Inc()
		},
	}
}

func (m *Metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.sync, m.full, m.partial, m.programming, m.last, m.queued, m.connections, m.limit,
		m.failures, m.repaired, m.forgotten, m.noLocal, m.healthz, m.livez}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, c := range m.all() {
		c.Describe(to)
	}
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	for _, c := range m.all() {
		c.Collect(to)
	}
}
