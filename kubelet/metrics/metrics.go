// Package metrics shows Prometheus how a kubelet works with its container runtime, under the names
// that the Kubernetes kubelet has at /metrics.
//
//	m := metrics.New("node-1")
//	runtime, err := cri.Dial(ctx, socket, cri.Options{Observe: m.Observe})
//	m.Count(runtime)
//	mux.Handle("/metrics", m)
//
// The series are kubelet_node_name, kubelet_runtime_operations_total,
// kubelet_runtime_operations_errors_total and kubelet_runtime_operations_duration_seconds by
// operation_type, kubelet_run_podsandbox_duration_seconds and kubelet_run_podsandbox_errors_total by
// runtime_handler, kubelet_started_pods_total and kubelet_started_user_namespaced_pods_total with their errors, and
// those of the process and the Go runtime. A program that passes the methods of Metrics to a kubelet as its Meters
// has the series of the starts of pods (kubelet_pod_start_duration_seconds, kubelet_pod_start_sli_duration_seconds and
// kubelet_pod_start_total_duration_seconds) and of containers (kubelet_started_containers_total and its errors), of
// the work on pods (kubelet_pod_worker_duration_seconds and kubelet_pod_worker_start_duration_seconds), of relists (kubelet_pleg_...), kubelet_evictions, and those of resizes: requested, infeasible,
// accepted after they were deferred, pending, in progress, and their durations. CountVolumes adds
// kubelet_volume_stats_capacity_bytes, available_bytes, used_bytes, inodes, inodes_free and inodes_used of claims. With Count, the runtime is asked at
// each request for kubelet_running_pods and kubelet_running_containers; if it does not answer within
// 5 seconds, these are left out.
//
// # Not included
//
// Everything of the Kubernetes kubelet that has no counterpart here.
package metrics

import (
	"context"
	"net/http"
	"strings"
	"sync/atomic"
	"time"
	"unicode"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// A Runtime lists sandboxes and containers. A *cri.Client is one.
type Runtime interface {
	ListPodSandbox(context.Context, *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error)
	ListContainers(context.Context, *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error)
}

// countTimeout bounds what the runtime takes to list pods and containers.
const countTimeout = 5 * time.Second

// Metrics observes the calls of a runtime and serves the series. It is safe for concurrent use.
type Metrics struct {
	http.Handler
	calls, failures, failedSandboxes *prometheus.CounterVec
	took, sandboxTook                *prometheus.HistogramVec
	pods, containers                 *prometheus.Desc
	runtime                          atomic.Pointer[Runtime]
	resizes                          atomic.Pointer[func() (map[string]int, int)]
	work                             *work
	starts                           *starts
	volumes                          *volumes
	registry                         *prometheus.Registry
}

// New returns Metrics of one node in a registry of their own.
func New(node string) *Metrics {
	operation, handler := []string{"operation_type"}, []string{"runtime_handler"}
	m := &Metrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "kubelet_runtime_operations_total",
			Help: "Cumulative number of runtime operations by operation type."}, operation),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "kubelet_runtime_operations_errors_total",
			Help: "Cumulative number of runtime operation errors by operation type."}, operation),
		took: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "kubelet_runtime_operations_duration_seconds",
			Help: "Duration in seconds of runtime operations. Broken down by operation type.", Buckets: prometheus.ExponentialBuckets(.005, 2.5, 14)}, operation),
		sandboxTook: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "kubelet_run_podsandbox_duration_seconds",
			Help: "Duration in seconds of the run_podsandbox operations. Broken down by RuntimeClass.Handler."}, handler),
		failedSandboxes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "kubelet_run_podsandbox_errors_total",
			Help: "Cumulative number of the run_podsandbox operation errors by RuntimeClass.Handler."}, handler),
		pods:       prometheus.NewDesc("kubelet_running_pods", "Number of pods that have a running pod sandbox", nil, nil),
		work:       newWork(),
		starts:     newStarts(),
		volumes:    newVolumes(),
		registry:   prometheus.NewRegistry(),
		containers: prometheus.NewDesc("kubelet_running_containers", "Number of containers currently running", []string{"container_state"}, nil),
	}
	name := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "kubelet_node_name", Help: "The node's name. The count is always 1."}, []string{"node"})
	name.WithLabelValues(node).Set(1)
	m.registry.MustRegister(m.work.collectors()...)
	m.registry.MustRegister(m.starts.collectors()...)
	m.registry.MustRegister(m.calls, m.failures, m.took, m.sandboxTook, m.failedSandboxes, name, counts{m}, m.volumes, newResizeCounts(&m.resizes),
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	m.Handler = promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{})
	return m
}

// Describe sends the descriptors of the metrics, of those without a series too.
func (m *Metrics) Describe(to chan<- *prometheus.Desc) { m.registry.Describe(to) }

// Count makes the series of running pods and containers those of a runtime.
func (m *Metrics) Count(r Runtime) { m.runtime.Store(&r) }

// Observe records a call; it is a cri.Options.Observe.
func (m *Metrics) Observe(call string, request any, took time.Duration, err error) {
	operation := operationOf(call)
	m.calls.WithLabelValues(operation).Inc()
	m.took.WithLabelValues(operation).Observe(took.Seconds())
	if err != nil {
		m.failures.WithLabelValues(operation).Inc()
	}
	if sandbox, ok := request.(*runtimeapi.RunPodSandboxRequest); ok {
		m.sandboxTook.WithLabelValues(sandbox.GetRuntimeHandler()).Observe(took.Seconds())
		if err != nil {
			m.failedSandboxes.WithLabelValues(sandbox.GetRuntimeHandler()).Inc()
		}
		m.work.started(sandbox, err)
	}
}

// operationOf returns Kubernetes' name of a call of the CRI.
func operationOf(call string) string {
	if call == "UpdateContainerResources" {
		return "update_container"
	}
	var b strings.Builder
	for i, r := range strings.ReplaceAll(call, "PodSandbox", "Podsandbox") {
		if unicode.IsUpper(r) && i > 0 {
			b.WriteByte('_')
		}
		b.WriteRune(unicode.ToLower(r))
	}
	return b.String()
}

// counts collects the series of running pods and containers.
type counts struct{ *Metrics }

func (c counts) Describe(to chan<- *prometheus.Desc) {
	to <- c.pods
	to <- c.containers
}

func (c counts) Collect(to chan<- prometheus.Metric) {
	runtime := c.runtime.Load()
	if runtime == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), countTimeout)
	defer cancel()
	ready := &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY}
	sandboxes, err := (*runtime).ListPodSandbox(ctx, &runtimeapi.ListPodSandboxRequest{Filter: &runtimeapi.PodSandboxFilter{State: ready}})
	if err != nil {
		return
	}
	list, err := (*runtime).ListContainers(ctx, &runtimeapi.ListContainersRequest{})
	if err != nil {
		return
	}
	pods := map[string]bool{}
	for _, s := range sandboxes.GetItems() {
		pods[s.GetMetadata().GetUid()] = true
	}
	to <- prometheus.MustNewConstMetric(c.pods, prometheus.GaugeValue, float64(len(pods)))
	states := map[string]int{}
	for _, container := range list.GetContainers() {
		states[strings.ToLower(strings.TrimPrefix(container.GetState().String(), "CONTAINER_"))]++
	}
	for state, n := range states {
		to <- prometheus.MustNewConstMetric(c.containers, prometheus.GaugeValue, float64(n), state)
	}
}
