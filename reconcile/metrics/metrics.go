// Package metrics exports queues and controllers to Prometheus, under the names that dashboards for
// Kubernetes' controllers use.
//
//	m := metrics.New()
//	queue := reconcile.NewQueueWith(reconcile.QueueConfig[string]{Hooks: m.Queue("painter")})
//	stop := m.Watch("painter", queue)
//	c, err := reconcile.New(reconcile.Config[string]{Name: "painter", Queue: queue, Hooks: m.Controller("painter", 5)})
//	registry.MustRegister(m)
//
// The series of client-go's work queues are workqueue_depth, workqueue_adds_total,
// workqueue_queue_duration_seconds, workqueue_work_duration_seconds,
// workqueue_unfinished_work_seconds, workqueue_longest_running_processor_seconds and
// workqueue_retries_total, by name. Those of controller-runtime are
// controller_runtime_reconcile_total, controller_runtime_reconcile_errors_total,
// controller_runtime_reconcile_panics_total, controller_runtime_reconcile_time_seconds,
// controller_runtime_active_workers and controller_runtime_max_concurrent_reconciles, by
// controller. A series that shows a state is computed when it is collected, without a background
// goroutine.
package metrics

import (
	"sync"
	"time"

	"github.com/planekit/planekit/reconcile"
	"github.com/prometheus/client_golang/prometheus"
)

// These are the buckets of the queues of Kubernetes and of controller-runtime, in seconds.
var (
	queueSeconds = prometheus.ExponentialBuckets(10e-9, 10, 10)
	callSeconds  = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.35, 0.4, 0.45, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.25, 1.5, 1.75, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5, 6, 7, 8, 9, 10, 15, 20, 25, 30, 40, 50, 60}
)

// Stats returns the state of a queue, as a reconcile.Queue does.
type Stats = interface{ Stats() reconcile.QueueStats }

// Metrics is a prometheus.Collector. It is safe for concurrent use.
type Metrics struct {
	adds, retries, calls, failures, panics *prometheus.CounterVec
	waited, worked, took                   *prometheus.HistogramVec
	active, most                           *prometheus.GaugeVec
	depth, unfinished, longest             *prometheus.Desc

	// mu guards the field below.
	mu     sync.Mutex
	queues map[string]Stats
}

// New returns empty Metrics. The caller registers them.
func New() *Metrics {
	counter := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	histogram := func(name, help string, buckets []float64, label string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets}, []string{label})
	}
	gauge := func(name, help string) *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: help}, []string{"controller"})
	}
	state := func(name, help string) *prometheus.Desc { return prometheus.NewDesc(name, help, []string{"name"}, nil) }
	return &Metrics{
		adds:       counter("workqueue_adds_total", "Total number of adds handled by workqueue", "name"),
		retries:    counter("workqueue_retries_total", "Total number of retries handled by workqueue", "name"),
		waited:     histogram("workqueue_queue_duration_seconds", "How long in seconds an item stays in workqueue before being requested", queueSeconds, "name"),
		worked:     histogram("workqueue_work_duration_seconds", "How long in seconds processing an item from workqueue takes.", queueSeconds, "name"),
		depth:      state("workqueue_depth", "Current depth of workqueue"),
		unfinished: state("workqueue_unfinished_work_seconds", "How many seconds of work has been done that is in progress and hasn't been observed by work_duration. Large values indicate stuck threads."),
		longest:    state("workqueue_longest_running_processor_seconds", "How many seconds has the longest running processor for workqueue been running."),
		calls:      counter("controller_runtime_reconcile_total", "Total number of reconciliations per controller", "controller", "result"),
		failures:   counter("controller_runtime_reconcile_errors_total", "Total number of reconciliation errors per controller", "controller"),
		panics:     counter("controller_runtime_reconcile_panics_total", "Total number of reconciliation panics per controller", "controller"),
		took:       histogram("controller_runtime_reconcile_time_seconds", "Length of time per reconciliation per controller", callSeconds, "controller"),
		active:     gauge("controller_runtime_active_workers", "Number of currently used workers per controller"),
		most:       gauge("controller_runtime_max_concurrent_reconciles", "Maximum number of concurrent reconciles per controller"),
		queues:     map[string]Stats{},
	}
}

// Queue returns the hooks of a queue.
func (m *Metrics) Queue(name string) reconcile.QueueHooks {
	waited, worked := m.waited.WithLabelValues(name), m.worked.WithLabelValues(name)
	return reconcile.QueueHooks{
		Added: m.adds.WithLabelValues(name).Inc, Retried: m.retries.WithLabelValues(name).Inc,
		Got:      func(d time.Duration) { waited.Observe(d.Seconds()) },
		Finished: func(d time.Duration) { worked.Observe(d.Seconds()) },
	}
}

// Watch exports the state of a queue until stop is called. A second queue of the same name replaces
// the first.
func (m *Metrics) Watch(name string, q Stats) (stop func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.queues[name] = q
	return func() {
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.queues[name] == q {
			delete(m.queues, name)
		}
	}
}

// Controller returns the hooks of a controller with that number of workers.
func (m *Metrics) Controller(name string, workers int) reconcile.Hooks {
	m.most.WithLabelValues(name).Set(float64(workers))
	active, took := m.active.WithLabelValues(name), m.took.WithLabelValues(name)
	failures, panics := m.failures.WithLabelValues(name), m.panics.WithLabelValues(name)
	return reconcile.Hooks{
		Began: active.Inc,
		Ended: func(how reconcile.Outcome, d time.Duration) {
			active.Dec()
			took.Observe(d.Seconds())
			if how == reconcile.Panic {
				panics.Inc()
				how = reconcile.Failure // a panic also counts as an error
			}
			if how == reconcile.Failure {
				failures.Inc()
			}
			m.calls.WithLabelValues(name, string(how)).Inc()
		},
	}
}

func (m *Metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.adds, m.retries, m.waited, m.worked, m.calls, m.failures, m.panics, m.took, m.active, m.most}
}

// Describe implements prometheus.Collector.
func (m *Metrics) Describe(out chan<- *prometheus.Desc) {
	for _, c := range m.collectors() {
		c.Describe(out)
	}
	out <- m.depth
	out <- m.unfinished
	out <- m.longest
}

// Collect implements prometheus.Collector.
func (m *Metrics) Collect(out chan<- prometheus.Metric) {
	for _, c := range m.collectors() {
		c.Collect(out)
	}
	m.mu.Lock()
	states := make(map[string]Stats, len(m.queues))
	for name, q := range m.queues {
		states[name] = q
	}
	m.mu.Unlock()
	for name, q := range states {
		s := q.Stats()
		for desc, value := range map[*prometheus.Desc]float64{
			m.depth: float64(s.Depth), m.unfinished: s.Unfinished.Seconds(), m.longest: s.Longest.Seconds(),
		} {
			out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, name)
		}
	}
}
