// Package metrics exports a scheduler to Prometheus, under the names that kube-scheduler has at /metrics.
//
//	m := metrics.New()
//	registry.MustRegister(m)
//	scheduler, err := schedule.New(schedule.Config{Meters: m.Meters(), ...})
//
// The series are scheduler_schedule_attempts_total and scheduler_scheduling_attempt_duration_seconds by result
// and profile, scheduler_scheduling_algorithm_duration_seconds, scheduler_pod_scheduling_sli_duration_seconds
// by attempts, scheduler_pod_scheduling_attempts, scheduler_queue_incoming_pods_total by queue and event,
// scheduler_preemption_attempts_total, scheduler_preemption_victims, scheduler_permit_wait_duration_seconds by
// result, scheduler_framework_extension_point_duration_seconds by extension_point, status and profile,
// scheduler_plugin_execution_duration_seconds by plugin, extension_point and status, of a tenth of the calls,
// scheduler_event_handling_duration_seconds by event, and scheduler_pod_scheduled_after_flush_total. While
// the scheduler runs, there are also scheduler_pending_pods by queue, scheduler_unschedulable_pods by plugin and
// profile, scheduler_cache_size by type, scheduler_goroutines of the operation binding, and
// scheduler_plugin_evaluation_total by plugin, extension_point and profile, which are counted when they are collected.
//
// The reasons to enter a queue are named as in kube-scheduler, but for updates of nodes, which are all NodeUpdate.
// What is known for pods that are alike is not asked again, so that scheduler_plugin_evaluation_total is much lower
// than kube-scheduler's in the same cluster.
//
// # Not included
//
// The durations of single predicates and priorities, at the extension points PreFilter, Filter, PreScore and Score: a
// decision does not call them for each pod. The goroutines of other operations than binding, and the series of
// kube-scheduler's batches, queueing hints and asynchronous calls, which do not exist here.
package metrics

import (
	"strconv"
	"sync"
	"time"

	"github.com/planekit/planekit/schedule"
	"github.com/prometheus/client_golang/prometheus"
)

// These are kube-scheduler's buckets.
var (
	attemptSeconds   = prometheus.ExponentialBuckets(0.001, 2, 15)
	sliSeconds       = prometheus.ExponentialBuckets(0.01, 2, 20)
	extensionSeconds = prometheus.ExponentialBuckets(0.0001, 2, 12)
	pluginSeconds    = prometheus.ExponentialBuckets(0.00001, 1.5, 20)
	attemptCounts    = prometheus.ExponentialBuckets(1, 2, 5)
	victimCounts     = prometheus.ExponentialBuckets(1, 2, 7)
)

// Metrics is a prometheus.Collector of one scheduler. It is safe for concurrent use.
type Metrics struct {
	attempts, incoming           *prometheus.CounterVec
	took, sli, waited, extended  *prometheus.HistogramVec
	executed, handled            *prometheus.HistogramVec
	algorithm, tries, victims    prometheus.Histogram
	preemptions, flushed         prometheus.Counter
	pending, unschedulable, size *prometheus.Desc
	goroutines, evaluations      *prometheus.Desc

	mu     sync.Mutex             // guards counts
	counts func() schedule.Counts // nil while the scheduler does not run
}

// New returns Metrics without observations. The caller registers them.
func New() *Metrics {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("scheduler_"+name, help, labels, nil)
	}
	return &Metrics{
		attempts:  counters("schedule_attempts_total", "Attempts to schedule a pod by result: scheduled; unschedulable, if no node was found; or error.", "result", "profile"),
		incoming:  counters("queue_incoming_pods_total", "Pods that entered a queue, by the queue and the event that was the reason.", "queue", "event"),
		took:      histograms("scheduling_attempt_duration_seconds", "Time in seconds of an attempt to schedule a pod, from the queue to the end of the binding.", attemptSeconds, "result", "profile"),
		sli:       histograms("pod_scheduling_sli_duration_seconds", "Time in seconds from the first attempt to schedule a pod until it was bound, by the number of attempts.", sliSeconds, "attempts"),
		waited:    histograms("permit_wait_duration_seconds", "Time in seconds that a pod has waited for a permission.", attemptSeconds, "result"),
		extended:  histograms("framework_extension_point_duration_seconds", "Time in seconds of all plugins of an extension point.", extensionSeconds, "extension_point", "status", "profile"),
		executed:  histograms("plugin_execution_duration_seconds", "Time in seconds of one plugin at an extension point, of a tenth of the calls.", pluginSeconds, "plugin", "extension_point", "status"),
		handled:   histograms("event_handling_duration_seconds", "Time in seconds in which a change of an object was handled.", extensionSeconds, "event"),
		algorithm: histogram("scheduling_algorithm_duration_seconds", "Time in seconds of the decision about a pod.", attemptSeconds),
		tries:     histogram("pod_scheduling_attempts", "Attempts until a pod was bound.", attemptCounts),
		victims:   histogram("preemption_victims", "Pods that were chosen to be preempted for another one.", victimCounts),
		preemptions: prometheus.NewCounter(prometheus.CounterOpts{Name: "scheduler_preemption_attempts_total",
			Help: "Searches for pods to preempt."}),
		flushed: prometheus.NewCounter(prometheus.CounterOpts{Name: "scheduler_pod_scheduled_after_flush_total",
			Help: "Pods that were bound after they had been tried only because they waited for too long."}),
		pending:       desc("pending_pods", "Pods without a node by queue: active; backoff; unschedulable, after a failed attempt; or gated, which were never tried.", "queue"),
		unschedulable: desc("unschedulable_pods", "Pods without a node by each plugin that has refused them.", "plugin", "profile"),
		goroutines:    desc("goroutines", "Goroutines by their work, which is binding.", "operation"),
		evaluations:   desc("plugin_evaluation_total", "Questions to a plugin at PreFilter, Filter, PreScore or Score.", "plugin", "extension_point", "profile"),
		size:          desc("cache_size", "Nodes, pods on nodes, and those pods of them whose binding is not confirmed.", "type"),
	}
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "scheduler_" + name, Help: help}, labels)
}

func histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "scheduler_" + name, Help: help, Buckets: buckets}, labels)
}

func histogram(name, help string, buckets []float64) prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{Name: "scheduler_" + name, Help: help, Buckets: buckets})
}

// mostAttempts bounds the values of the label attempts, as in kube-scheduler.
const mostAttempts = 15

// Meters returns what a scheduler calls.
func (m *Metrics) Meters() schedule.Meters {
	return schedule.Meters{
		Attempted: func(profile, result string, took time.Duration) {
			m.attempts.WithLabelValues(result, profile).Inc()
			m.took.WithLabelValues(result, profile).Observe(took.Seconds())
		},
		Decided: func(took time.Duration) { m.algorithm.Observe(took.Seconds()) },
		Scheduled: func(attempts int, took time.Duration) {
			label := strconv.Itoa(attempts)
			if attempts >= mostAttempts {
				label = strconv.Itoa(mostAttempts) + "+"
			}
			m.tries.Observe(float64(attempts))
			m.sli.WithLabelValues(label).Observe(took.Seconds())
		},
		ScheduledAfterFlush: m.flushed.Inc,
		Executed: func(plugin, point, status string, took time.Duration) {
			m.executed.WithLabelValues(plugin, point, status).Observe(took.Seconds())
		},
		Handled: func(event string, took time.Duration) { m.handled.WithLabelValues(event).Observe(took.Seconds()) },
		Queued:  func(queue, event string) { m.incoming.WithLabelValues(queue, event).Inc() },
		Preempting: func(victims int) {
			m.preemptions.Inc()
			if victims > 0 {
				m.victims.Observe(float64(victims))
			}
		},
		Waited: func(status string, took time.Duration) { m.waited.WithLabelValues(status).Observe(took.Seconds()) },
		Extended: func(profile, point, status string, took time.Duration) {
			m.extended.WithLabelValues(point, status, profile).Observe(took.Seconds())
		},
		Count: func(counts func() schedule.Counts) {
			m.mu.Lock()
			defer m.mu.Unlock()
			m.counts = counts
		},
	}
}

// collectors are the series that are kept.
func (m *Metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.attempts, m.incoming, m.took, m.sli, m.waited, m.extended, m.executed, m.handled, m.algorithm, m.tries, m.victims, m.preemptions, m.flushed}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) {
	for _, c := range m.collectors() {
		c.Describe(to)
	}
	to <- m.pending
	to <- m.unschedulable
	to <- m.size
	to <- m.goroutines
	to <- m.evaluations
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(to chan<- prometheus.Metric) {
	for _, c := range m.collectors() {
		c.Collect(to)
	}
	m.mu.Lock()
	counts := m.counts
	m.mu.Unlock()
	if counts == nil {
		return
	}
	gauge := func(desc *prometheus.Desc, value int, labels ...string) {
		to <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, float64(value), labels...)
	}
	c := counts()
	gauge(m.pending, c.Active, "active")
	gauge(m.pending, c.Backoff, "backoff")
	gauge(m.pending, c.Unschedulable, "unschedulable")
	gauge(m.pending, c.Gated, "gated")
	gauge(m.size, c.Nodes, "nodes")
	gauge(m.size, c.Pods, "pods")
	gauge(m.size, c.Assumed, "assumed_pods")
	gauge(m.goroutines, c.Binding, "binding")
	for e, n := range c.Evaluations {
		to <- prometheus.MustNewConstMetric(m.evaluations, prometheus.CounterValue, float64(n), e.Plugin, e.Point, e.Profile)
	}
	for refusal, pods := range c.Refused {
		gauge(m.unschedulable, pods, refusal.Plugin, refusal.Profile)
	}
}
