// Package metrics counts and times the attempts of probes for Prometheus, under the names that the
// Kubernetes kubelet has at /metrics/probes.
//
//	m := metrics.New()
//	set := probe.NewSet(probe.Config{Prober: prober, Observe: m.Observe, Stopped: m.Forget})
//	mux.Handle("/metrics/probes", m)
//
// The series are prober_probe_total, by probe_type, result, container, pod, namespace and pod_uid,
// and prober_probe_duration_seconds, a histogram by probe_type, container, pod and namespace.
// Forget removes those of a pod, so that their number is bounded by the pods that are probed.
package metrics

import (
	"net/http"
	"time"

	"github.com/planekit/planekit/kubelet/probe"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	corev1 "k8s.io/api/core/v1"
)

// Metrics counts attempts and serves the counts. It is safe for concurrent use.
type Metrics struct {
	http.Handler
	attempts *prometheus.CounterVec
	took     *prometheus.HistogramVec
}

// New returns Metrics in a registry of their own.
func New() *Metrics {
	m := &Metrics{
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "prober_probe_total",
			Help: "Cumulative number of a liveness, readiness or startup probe for a container by result."},
			[]string{"probe_type", "result", "container", "pod", "namespace", "pod_uid"}),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "prober_probe_duration_seconds",
			Help: "Duration in seconds for a probe response."},
			[]string{"probe_type", "container", "pod", "namespace"}),
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(m.attempts, m.took)
	m.Handler = promhttp.HandlerFor(registry, promhttp.HandlerOpts{})
	return m
}

// Describe sends the descriptors of the metrics, of those without a series too.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	m.attempts.Describe(to)
	m.took.Describe(to)
}

// Observe records an attempt; it is a probe.Config.Observe. As in Kubernetes, failed attempts are
// counted but not timed.
func (m *Metrics) Observe(pod *corev1.Pod, c *corev1.Container, kind probe.Kind, result string, took time.Duration) {
	m.attempts.WithLabelValues(string(kind), result, c.Name, pod.Name, pod.Namespace, string(pod.UID)).Inc()
	if result != probe.Failure.String() {
		m.took.WithLabelValues(string(kind), c.Name, pod.Name, pod.Namespace).Observe(took.Seconds())
	}
}

// Forget removes the series of a pod whose probes have ended; it is a probe.Config.Stopped. A nil
// pod has no series.
func (m *Metrics) Forget(pod *corev1.Pod) {
	if pod == nil {
		return
	}
	m.attempts.DeletePartialMatch(prometheus.Labels{"pod_uid": string(pod.UID)})
	m.took.DeletePartialMatch(prometheus.Labels{"namespace": pod.Namespace, "pod": pod.Name})
}
