// Package metrics exports a DNS server to Prometheus, under the names that CoreDNS has at /metrics.
//
//	m := metrics.New("dns://:53", "cluster.local.")
//	registry.MustRegister(m)
//	s, err := dns.New(dns.Config{Meters: m.Meters(), ...})
//
// The series are coredns_dns_requests_total, coredns_dns_do_requests_total,
// coredns_dns_request_duration_seconds, coredns_dns_request_size_bytes, coredns_dns_response_size_bytes and
// coredns_dns_responses_total; coredns_cache_entries, coredns_cache_requests_total,
// coredns_cache_hits_total, coredns_cache_misses_total and coredns_cache_evictions_total;
// coredns_proxy_request_duration_seconds and coredns_forward_max_concurrent_rejects_total;
// coredns_kubernetes_dns_programming_duration_seconds. They have CoreDNS' labels, so that its dashboards
// show them: server and zones are the arguments of [New], view is empty, and plugin is "kubernetes" or
// "forward". The size of a request is that of its packet. The cache holds answers of upstreams alone.
// planekit adds planekit_dns_connections_refused_total.
package metrics

import (
	"net/netip"
	"time"

	"github.com/planekit/planekit/service/dns"
	"github.com/prometheus/client_golang/prometheus"
)

// These are CoreDNS' buckets.
var (
	seconds            = prometheus.ExponentialBuckets(0.00025, 2, 16)
	programmingSeconds = prometheus.ExponentialBuckets(0.001, 2, 20)
	bytes              = []float64{0, 100, 200, 300, 400, 511, 1023, 2047, 4095, 8291, 16e3, 32e3, 48e3, 64e3}
)

// Metrics is a prometheus.Collector of one server. It is safe for concurrent use.
type Metrics struct {
	server, zones                          string
	requests, do, responses                *prometheus.CounterVec
	duration, requestSize, responseSize    *prometheus.HistogramVec
	entries                                *prometheus.GaugeVec
	cacheRequests, hits, misses, evictions *prometheus.CounterVec
	upstream, programming                  *prometheus.HistogramVec
	rejects, refused                       prometheus.Counter
}

// New returns Metrics without observations. server and zones are the labels of those names, such as
// "dns://:53" and ".". The caller registers the Metrics.
func New(server, zones string) *Metrics {
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "coredns_" + name, Help: help}, labels)
	}
	histograms := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "coredns_" + name, Help: help, Buckets: buckets}, labels)
	}
	return &Metrics{
		server: server, zones: zones,
		requests:     counters("dns_requests_total", "Questions.", "server", "zone", "view", "proto", "family", "type"),
		do:           counters("dns_do_requests_total", "Questions of clients that want signatures.", "server", "zone", "view"),
		responses:    counters("dns_responses_total", "Answers.", "server", "zone", "view", "rcode", "plugin"),
		duration:     histograms("dns_request_duration_seconds", "Time in seconds until a question was answered.", seconds, "server", "zone", "view"),
		requestSize:  histograms("dns_request_size_bytes", "Length in bytes of questions.", bytes, "server", "zone", "view", "proto"),
		responseSize: histograms("dns_response_size_bytes", "Length in bytes of answers.", bytes, "server", "zone", "view", "proto"),
		entries: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "coredns_cache_entries", Help: "Answers of upstreams that are remembered."},
			[]string{"server", "type", "zones", "view"}),
		cacheRequests: counters("cache_requests_total", "Questions about other names.", "server", "zones", "view"),
		hits:          counters("cache_hits_total", "Questions whose answer was remembered.", "server", "type", "zones", "view"),
		misses:        counters("cache_misses_total", "Questions whose answer was not remembered.", "server", "zones", "view"),
		evictions:     counters("cache_evictions_total", "Answers that left a full cache.", "server", "type", "zones", "view"),
		upstream: histograms("proxy_request_duration_seconds", "Time in seconds of an exchange with an upstream.", seconds,
			"proxy_name", "to", "rcode"),
		programming: histograms("kubernetes_dns_programming_duration_seconds",
			"Time in seconds from the change of a pod of a headless service until its answers changed.", programmingSeconds, "service_kind"),
		rejects: prometheus.NewCounter(prometheus.CounterOpts{Name: "coredns_forward_max_concurrent_rejects_total",
			Help: "Questions that were not forwarded because too many waited."}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{Name: "planekit_dns_connections_refused_total",
			Help: "Connections that were closed because there were too many."}),
	}
}

// Meters returns the functions that a server calls.
func (m *Metrics) Meters() dns.Meters {
	return dns.Meters{
		Answered: m.answered,
		Cached: func(hit, denial bool) {
			m.cacheRequests.WithLabelValues(m.server, m.zones, "").Inc()
			switch {
			case !hit:
				m.misses.WithLabelValues(m.server, m.zones, "").Inc()
			case denial:
				m.hits.WithLabelValues(m.server, "denial", m.zones, "").Inc()
			default:
				m.hits.WithLabelValues(m.server, "success", m.zones, "").Inc()
			}
		},
		Stored: func(successes, denials, evicted int) {
			m.entries.WithLabelValues(m.server, "success", m.zones, "").Set(float64(successes))
			m.entries.WithLabelValues(m.server, "denial", m.zones, "").Set(float64(denials))
			if evicted > 0 {
				m.evictions.WithLabelValues(m.server, "", m.zones, "").Add(float64(evicted))
			}
		},
		Forwarded: func(upstream netip.AddrPort, rcode string, took time.Duration) {
			m.upstream.WithLabelValues("forward", upstream.String(), rcode).Observe(took.Seconds())
		},
		Rejected: m.rejects.Inc,
		Refused:  m.refused.Inc,
		Programmed: func(took time.Duration) {
			m.programming.WithLabelValues("headless_with_selector").Observe(took.Seconds())
		},
	}
}

func (m *Metrics) answered(a dns.Answer) {
	plugin := "kubernetes"
	if a.Zone == "." {
		plugin = "forward"
	}
	m.requests.WithLabelValues(m.server, a.Zone, "", a.Protocol, a.Family, a.Type).Inc()
	if a.DNSSEC {
		m.do.WithLabelValues(m.server, a.Zone, "").Inc()
	}
	m.responses.WithLabelValues(m.server, a.Zone, "", a.Rcode, plugin).Inc()
	m.duration.WithLabelValues(m.server, a.Zone, "").Observe(a.Took.Seconds())
	m.requestSize.WithLabelValues(m.server, a.Zone, "", a.Protocol).Observe(float64(a.RequestSize))
	m.responseSize.WithLabelValues(m.server, a.Zone, "", a.Protocol).Observe(float64(a.ResponseSize))
}

func (m *Metrics) all() []prometheus.Collector {
	return []prometheus.Collector{m.requests, m.do, m.responses, m.duration, m.requestSize, m.responseSize, m.entries, m.cacheRequests, m.hits,
		m.misses, m.evictions, m.upstream, m.programming, m.rejects, m.refused}
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
