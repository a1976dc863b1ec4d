package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// starts has the series of the starts of pods and containers, and of the work on pods.
type starts struct {
	running, workers             prometheus.Histogram
	sli, total, work             *prometheus.HistogramVec
	containers, failedContainers *prometheus.CounterVec
}

// startBuckets holds the buckets of Kubernetes, in seconds.
var startBuckets = []float64{0.5, 1, 2, 3, 4, 5, 6, 8, 10, 20, 30, 45, 60, 120, 180, 240, 300, 360, 480, 600, 900, 1200, 1800, 2700, 3600}

func newStarts() *starts {
	const measured = ", measured from pod creation timestamp to when all its containers are reported as started and observed via watch"
	histogram := func(name, help string, buckets []float64) prometheus.Histogram {
		return prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	}
	vector := func(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, labels)
	}
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	return &starts{
		running: histogram("kubelet_pod_start_duration_seconds",
			"Duration in seconds from kubelet seeing a pod for the first time to the pod starting to run", startBuckets),
		workers: histogram("kubelet_pod_worker_start_duration_seconds",
			"Duration in seconds from kubelet seeing a pod to starting a worker.", prometheus.DefBuckets),
		sli: vector("kubelet_pod_start_sli_duration_seconds",
			"Duration in seconds to start a pod, excluding time to pull images and run init containers"+measured, startBuckets),
		total: vector("kubelet_pod_start_total_duration_seconds",
			"Duration in seconds to start a pod since creation, including time to pull images and run init containers"+measured, startBuckets),
		work: vector("kubelet_pod_worker_duration_seconds",
			"Duration in seconds to sync a single pod. Broken down by operation type: create, update, or sync", prometheus.DefBuckets, "operation_type"),
		containers:       counter("kubelet_started_containers_total", "Cumulative number of containers started", "container_type"),
		failedContainers: counter("kubelet_started_containers_errors_total", "Cumulative number of errors when starting containers", "container_type", "code"),
	}
}

// collectors returns the series.
func (s *starts) collectors() []prometheus.Collector {
	return []prometheus.Collector{s.running, s.workers, s.sli, s.total, s.work, s.containers, s.failedContainers}
}

// WorkerStarted records the first work on a pod; it is a kubelet.Meters.WorkerStarted.
func (m *Metrics) WorkerStarted(after time.Duration) { m.starts.workers.Observe(after.Seconds()) }

// Synced records a work on a pod; it is a kubelet.Meters.Synced.
func (m *Metrics) Synced(operation string, took time.Duration) {
	m.starts.work.WithLabelValues(operation).Observe(took.Seconds())
}

// PodRunning records that a pod has become Running; it is a kubelet.Meters.PodRunning.
func (m *Metrics) PodRunning(took time.Duration) { m.starts.running.Observe(took.Seconds()) }

// PodStarted records that all containers of a pod run; it is a kubelet.Meters.PodStarted. As in Kubernetes,
// a stateful pod has no SLI.
func (m *Metrics) PodStarted(total, sli time.Duration, stateful bool) {
	m.starts.total.WithLabelValues().Observe(total.Seconds())
	if !stateful {
		m.starts.sli.WithLabelValues().Observe(sli.Seconds())
	}
}

// ContainerStarting records an attempt to start a container; it is a kubelet.Meters.ContainerStarting.
func (m *Metrics) ContainerStarting(kind string) { m.starts.containers.WithLabelValues(kind).Inc() }

// ContainerFailed records that it has failed; it is a kubelet.Meters.ContainerFailed.
func (m *Metrics) ContainerFailed(kind, reason string) {
	m.starts.failedContainers.WithLabelValues(kind, reason).Inc()
}
