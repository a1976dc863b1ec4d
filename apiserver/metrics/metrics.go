// Package metrics shows what an API server does to Prometheus, under the names
// that dashboards for kube-apiserver know.
//
//	m := metrics.New()
//	config.Hooks = m.Hooks()
//	config.Store = m.Store(config.Store)
//	config.Handlers = map[string]http.Handler{"/metrics": m.Handler()}
//	server, err := apiserver.New(config)
//	m.CountObjects(server.CountStored)
//	m.NameResources(server.ResourceAt)
//
// The server asks for the right to get the path /metrics, as for any path.
//
// The series are all that Kubernetes calls STABLE for an API server, those that the rules of
// kubernetes-mixin read, and those of the process and the Go runtime: of requests (apiserver_request_*,
// apiserver_response_sizes, apiserver_current_inflight_requests, apiserver_longrunning_requests,
// apiserver_requested_deprecated_apis), of admission (apiserver_admission_*), of the store
// (etcd_request_*, apiserver_storage_*, apiserver_resource_objects), of conversion webhooks, with
// [Metrics.FlowControl] apiserver_flowcontrol_*, with [Metrics.APIServices] aggregator_unavailable_apiservice,
// and with [Metrics.Build] kubernetes_build_info. COMPATIBILITY.md lists what is missing. Labels come from
// what is served and configured, never from what a client made up, so that their number is bounded.
//
// Objects and the size of the store are found when metrics are read. If the store does not respond
// within a second, their series are left out of that response.
//
// It leaves out ratios of flow control over time, and everything of kube-apiserver's that has no
// counterpart here.
package metrics

import (
	"net/http"
	"strings"
	"sync/atomic"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/storage"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// The buckets of kube-apiserver: seconds and bytes.
var (
	durations = []float64{0.005, 0.025, 0.05, 0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 1.25, 1.5, 2, 3, 4, 5, 6, 8, 10, 15, 20, 30, 45, 60}
	// objectives begin where a latency is of interest to an objective of the service.
	objectives = durations[2:]
	sizes      = prometheus.ExponentialBuckets(1000, 10, 7)
	bodies     = prometheus.LinearBuckets(50000, 100000, 31)
)

var requestLabels = []string{"verb", "group", "version", "resource", "subresource", "scope", "component"}

// Metrics collects. It is safe for concurrent use.
type Metrics struct {
	registry *prometheus.Registry

	requests     *prometheus.CounterVec
	seconds      *prometheus.HistogramVec
	bytes        *prometheus.HistogramVec
	inFlight     *prometheus.GaugeVec
	longRunning  *prometheus.GaugeVec
	storeSeconds *prometheus.HistogramVec
	storeErrors  *prometheus.CounterVec
	resourceAt   atomic.Pointer[func(storage.Key) schema.GroupResource]
	sliSeconds   *prometheus.HistogramVec
	terminations *prometheus.CounterVec
	bodyBytes    *prometheus.HistogramVec
	deprecated   *prometheus.GaugeVec
	certificates prometheus.Histogram
	flow         flow
	conversion   conversion
	admitted     admitted
	checks       checks
}

// New returns metrics of one server, in a registry of their own.
func New() *Metrics {
	m := &Metrics{
		registry: prometheus.NewRegistry(), admitted: newAdmitted(), checks: newChecks(), certificates: newCertificates(),
		sliSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "apiserver_request_sli_duration_seconds", Buckets: objectives,
			Help: "Response latency distribution (not counting webhook duration and priority & fairness queue wait times) in seconds for each verb, group, version, resource, subresource, scope and component."},
			requestLabels),
		terminations: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "apiserver_request_terminations_total",
			Help: "Number of requests which apiserver terminated in self-defense."}, append([]string{"code"}, requestLabels...)),
		bodyBytes: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "apiserver_request_body_size_bytes", Buckets: bodies,
			Help: "Apiserver request body size in bytes broken out by resource and verb."}, []string{"group", "resource", "verb"}),
		deprecated: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "apiserver_requested_deprecated_apis",
			Help: "Gauge of deprecated APIs that have been requested, broken out by API group, version, resource, subresource, and removed_release."},
			[]string{"group", "version", "resource", "subresource", "removed_release"}),
		flow: newFlow(), conversion: newConversion(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "apiserver_request_total",
			Help: "Counter of apiserver requests broken out for each verb, dry run value, group, version, resource, scope, component, and HTTP response code."},
			append([]string{"dry_run", "code"}, requestLabels...)),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "apiserver_request_duration_seconds", Buckets: durations,
			Help: "Response latency distribution in seconds for each verb, dry run value, group, version, resource, subresource, scope and component."},
			append([]string{"dry_run"}, requestLabels...)),
		bytes: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "apiserver_response_sizes", Buckets: sizes,
			Help: "Response size distribution in bytes for each group, version, verb, resource, subresource, scope and component."},
			requestLabels),
		inFlight: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "apiserver_current_inflight_requests",
			Help: "Number of requests in this apiserver that are not long-running, by kind: mutating or readOnly."},
			[]string{"request_kind"}),
		longRunning: prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "apiserver_longrunning_requests",
			Help: "Gauge of all active long-running apiserver requests broken out by verb, group, version, resource, scope and component."},
			requestLabels),
		storeSeconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "etcd_request_duration_seconds", Buckets: durations,
			Help: "Storage request latency in seconds for each operation and object type."}, []string{"operation", "group", "resource"}),
		storeErrors: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "etcd_request_errors_total",
			Help: "Storage requests that failed, guards which did not hold not counted."}, []string{"operation", "group", "resource"}),
	}
	m.registry.MustRegister(m.requests, m.seconds, m.bytes, m.inFlight, m.longRunning, m.storeSeconds, m.storeErrors,
		m.sliSeconds, m.terminations, m.bodyBytes, m.deprecated, m.certificates, m.admitted.step, m.admitted.controller, m.admitted.webhook,
		m.flow.waits, m.flow.executions, m.flow.seats, m.conversion.requests, m.conversion.seconds, m.conversion.secondsOfVersion,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Register adds a collector of the program's own.
func (m *Metrics) Register(c prometheus.Collector) error { return m.registry.Register(c) }

// Describe sends the descriptors of the metrics at [Metrics.Handler], of those without a series too. It is the half of a
// prometheus.Collector that documents need.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) { m.registry.Describe(to) }

// Handler serves the metrics in Prometheus' formats.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
}

// Hooks returns the hooks by which the server reports to these metrics.
func (m *Metrics) Hooks() apiserver.Hooks {
	return apiserver.Hooks{Began: m.began, Ended: m.served, Converted: m.conversion.observe, Admitted: m.admitted.observeStep, Checked: m.checks.observe}
}

func (m *Metrics) began(s apiserver.RequestSummary) { m.running(s).Inc() }

func (m *Metrics) served(s apiserver.RequestSummary) {
	m.running(s).Dec()
	m.flow.observe(s)
	labels := labelsOf(s)
	dryRun := ""
	if s.DryRun {
		dryRun = "All"
	}
	m.requests.WithLabelValues(append([]string{dryRun, code(s.Code)}, labels...)...).Inc()
	m.seconds.WithLabelValues(append([]string{dryRun}, labels...)...).Observe(s.Took.Seconds())
	if !s.DryRun {
		m.sliSeconds.WithLabelValues(labels...).Observe((s.Took - s.WebhookTime - s.Flow.Waited).Seconds())
	}
	if verb := labels[0]; verb == "GET" || verb == "LIST" {
		m.bytes.WithLabelValues(labels...).Observe(float64(s.Bytes))
	}
	m.unusual(s, labels)
}

// unusual counts what few requests have.
func (m *Metrics) unusual(s apiserver.RequestSummary, labels []string) {
	r := s.Resource
	if s.Terminated {
		m.terminations.WithLabelValues(append([]string{code(s.Code)}, labels...)...).Inc()
	}
	if s.Deprecated {
		m.deprecated.WithLabelValues(r.Group, r.Version, r.Resource, s.Subresource, s.RemovedRelease).Set(1)
	}
	if verb := bodyVerbs[s.Verb]; verb != "" && s.BodyBytes > 0 && r.Resource != "" {
		m.bodyBytes.WithLabelValues(r.Group, r.Resource, verb).Observe(float64(s.BodyBytes))
	}
}

// running is the gauge that a request counts in while it is served.
func (m *Metrics) running(s apiserver.RequestSummary) prometheus.Gauge {
	if s.LongRunning {
		return m.longRunning.WithLabelValues(labelsOf(s)...)
	}
	switch s.Verb {
	case "get", "list", "head":
		return m.inFlight.WithLabelValues("readOnly")
	}
	return m.inFlight.WithLabelValues("mutating")
}

// verbs maps verbs to those in the metrics of kube-apiserver.
var verbs = map[string]string{
	"get": "GET", "head": "GET", "list": "LIST", "watch": "WATCH", "create": "POST", "update": "PUT", "patch": "PATCH",
	"apply": "APPLY", "delete": "DELETE", "deletecollection": "DELETECOLLECTION",
	"post": "POST", "put": "PUT", "options": "OPTIONS",
}

// bodyVerbs are the verbs of requests whose bodies are measured.
var bodyVerbs = map[string]string{"create": "create", "update": "update", "patch": "patch", "apply": "patch", "delete": "delete", "deletecollection": "delete_collection"}

func labelsOf(s apiserver.RequestSummary) []string {
	verb := verbs[s.Verb]
	switch {
	case verb == "":
		verb = "other"
	case s.LongRunning && verb != "WATCH":
		verb = "CONNECT"
	}
	r := s.Resource
	if r == (schema.GroupVersionResource{}) {
		return []string{verb, "", "", "", "", "", "apiserver"}
	}
	return []string{verb, r.Group, r.Version, r.Resource, strings.ToLower(s.Subresource), s.Scope, "apiserver"}
}
