package metrics

import (
	"math"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// work has the series of what the kubelet does, other than its calls of the runtime.
type work struct {
	relists, intervals                                         prometheus.Histogram
	lastRelist                                                 prometheus.Gauge
	relisted                                                   atomic.Int64 // when the last list ended, in nanoseconds; 0 before
	evictions, requested, infeasible, accepted                 *prometheus.CounterVec
	resizes                                                    *prometheus.HistogramVec
	pods, failedPods, userNamespacedPods, failedUserNamespaced prometheus.Counter
}

func newWork() *work {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	vector := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	}
	return &work{
		relists: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "kubelet_pleg_relist_duration_seconds",
			Help: "Duration in seconds for relisting pods in PLEG."}),
		intervals: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "kubelet_pleg_relist_interval_seconds",
			Help: "Interval in seconds between relisting in PLEG."}),
		lastRelist: prometheus.NewGauge(prometheus.GaugeOpts{Name: "kubelet_pleg_last_seen_seconds",
			Help: "Timestamp in seconds when PLEG was last seen active."}),
		evictions: vector("kubelet_evictions", "Cumulative number of pod evictions by eviction signal", "eviction_signal"),
		requested: vector("kubelet_container_requested_resizes_total",
			"Number of requested resizes by resource, requirement and operation, counted for each container.", "resource", "requirement", "operation"),
		infeasible: vector("kubelet_pod_infeasible_resizes_total", "Number of infeasible resizes for pods.", "reason_detail"),
		accepted:   vector("kubelet_pod_deferred_accepted_resizes_total", "Cumulative number of resizes that were accepted after being deferred.", "retry_trigger"),
		resizes: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "kubelet_pod_resize_duration_milliseconds",
			Help:    "Duration in milliseconds to actuate a pod resize",
			Buckets: []float64{10, 50, 100, 500, 1000, 2000, 5000, 10000, 20000, 30000, 60000, 120000, 300000, 600000}}, []string{"success"}),
		pods:                 counter("kubelet_started_pods_total", "Cumulative number of pods started"),
		failedPods:           counter("kubelet_started_pods_errors_total", "Cumulative number of errors when starting pods"),
		userNamespacedPods:   counter("kubelet_started_user_namespaced_pods_total", "Cumulative number of pods with user namespaces started."),
		failedUserNamespaced: counter("kubelet_started_user_namespaced_pods_errors_total", "Cumulative number of errors when starting pods with user namespaces."),
	}
}

// collectors returns the series.
func (w *work) collectors() []prometheus.Collector {
	return []prometheus.Collector{
		w.relists, w.intervals, w.lastRelist, w.evictions, w.requested, w.infeasible, w.accepted, w.resizes,
		w.pods, w.failedPods, w.userNamespacedPods, w.failedUserNamespaced,
	}
}

// started records that a sandbox was created, or failed to be.
func (w *work) started(request *runtimeapi.RunPodSandboxRequest, err error) {
	namespaces := request.GetConfig().GetLinux().GetSecurityContext().GetNamespaceOptions()
	users := namespaces.GetUsernsOptions() != nil && namespaces.GetUsernsOptions().GetMode() == runtimeapi.NamespaceMode_POD
	w.pods.Inc()
	if users {
		w.userNamespacedPods.Inc()
	}
	if err != nil {
		w.failedPods.Inc()
		if users {
			w.failedUserNamespaced.Inc()
		}
	}
}

// Relisted records a list of the runtime's containers; it is a kubelet.Meters.Relisted.
func (m *Metrics) Relisted(took time.Duration) {
	now := time.Now()
	m.work.relists.Observe(took.Seconds())
	m.work.lastRelist.Set(float64(now.Unix()))
	if before := m.work.relisted.Swap(now.UnixNano()); before != 0 {
		m.work.intervals.Observe(now.Sub(time.Unix(0, before)).Seconds())
	}
}

// Evicted records an eviction; it is a kubelet.Meters.Evicted.
func (m *Metrics) Evicted(signal string) { m.work.evictions.WithLabelValues(signal).Inc() }

// ResizeRequested records a resize that is asked for; it is a kubelet.Meters.ResizeRequested.
func (m *Metrics) ResizeRequested(resource, requirement, operation string) {
	m.work.requested.WithLabelValues(resource, requirement, operation).Inc()
}

// ResizeInfeasible records a resize that is impossible; it is a kubelet.Meters.ResizeInfeasible.
func (m *Metrics) ResizeInfeasible(detail string) { m.work.infeasible.WithLabelValues(detail).Inc() }

// ResizeAccepted records that a deferred resize was allocated; it is a kubelet.Meters.ResizeAccepted.
func (m *Metrics) ResizeAccepted(trigger string) { m.work.accepted.WithLabelValues(trigger).Inc() }

// Resized records an attempt to carry out a resize; it is a kubelet.Meters.Resized.
func (m *Metrics) Resized(took time.Duration, ok bool) {
	m.work.resizes.WithLabelValues(strconv.FormatBool(ok)).Observe(float64(took.Milliseconds()))
}

// CountResizes makes the series of pending resizes and of those in progress what count returns at each
// request, such as a kubelet.Kubelet.Resizes.
func (m *Metrics) CountResizes(count func() (pending map[string]int, progress int)) {
	m.resizes.Store(&count)
}

// ServingCertificate adds the series of the time until the serving certificate expires, which ends returns; a
// zero time means that there is none.
func (m *Metrics) ServingCertificate(ends func() time.Time) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "kubelet_certificate_manager_server_ttl_seconds",
		Help: "Time until the kubelet's serving certificate expires in seconds, negative if it has expired, +Inf if there is none.",
	}, func() float64 {
		end := ends()
		if end.IsZero() {
			return math.Inf(1)
		}
		return math.Trunc(time.Until(end).Seconds())
	}))
}

// resizeCounts collects the series of pending resizes and of those in progress.
type resizeCounts struct {
	count             *atomic.Pointer[func() (map[string]int, int)]
	pending, progress *prometheus.Desc
}

func newResizeCounts(count *atomic.Pointer[func() (map[string]int, int)]) resizeCounts {
	return resizeCounts{
		count:    count,
		pending:  prometheus.NewDesc("kubelet_pod_pending_resizes", "Number of pending resizes for pods.", []string{"reason"}, nil),
		progress: prometheus.NewDesc("kubelet_pod_in_progress_resizes", "Number of in-progress resizes for pods.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (c resizeCounts) Describe(to chan<- *prometheus.Desc) {
	to <- c.pending
	to <- c.progress
}

// Collect implements prometheus.Collector.
func (c resizeCounts) Collect(to chan<- prometheus.Metric) {
	count := c.count.Load()
	if count == nil {
		return
	}
	pending, progress := (*count)()
	for reason, n := range pending {
		to <- prometheus.MustNewConstMetric(c.pending, prometheus.GaugeValue, float64(n), strings.ToLower(reason))
	}
	to <- prometheus.MustNewConstMetric(c.progress, prometheus.GaugeValue, float64(progress))
}
