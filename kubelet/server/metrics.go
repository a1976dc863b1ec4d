package server

import (
	"net/http"
	"runtime"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// resourceMetrics serves the CPU time and the working set of the node, its pods and containers.
func (s *Server) resourceMetrics(w http.ResponseWriter, r *http.Request) {
	var e exposition
	containerCPU := e.add("container_cpu_usage_seconds_total", "counter",
		"[STABLE] Cumulative cpu time consumed by the container in core-seconds", "container", "namespace", "pod")
	containerMemory := e.add("container_memory_working_set_bytes", "gauge",
		"[STABLE] Current working set of the container in bytes", "container", "namespace", "pod")
	containerStart := e.add("container_start_time_seconds", "gauge",
		"[STABLE] Start time of the container since unix epoch in seconds", "container", "namespace", "pod")
	nodeCPU := e.add("node_cpu_usage_seconds_total", "counter", "[STABLE] Cumulative cpu time consumed by the node in core-seconds")
	nodeMemory := e.add("node_memory_working_set_bytes", "gauge", "[STABLE] Current working set of the node in bytes")
	podCPU := e.add("pod_cpu_usage_seconds_total", "counter",
		"[STABLE] Cumulative cpu time consumed by the pod in core-seconds", "namespace", "pod")
	podMemory := e.add("pod_memory_working_set_bytes", "gauge", "[STABLE] Current working set of the pod in bytes", "namespace", "pod")
	failed := e.add("resource_scrape_error", "gauge", "[STABLE] 1 if there was an error while getting container metrics, 0 otherwise")

	usage, err := s.usage(r.Context())
	if err != nil {
		s.config.Log.Error(err, "cannot read the statistics of containers for /metrics/resource")
		failed.sample(1, time.Time{})
		e.serve(w)
		return
	}
	failed.sample(0, time.Time{})
	nodeCPU.cpu(usage.Node.CPU)
	nodeMemory.workingSet(usage.Node.Memory)
	for i := range usage.Pods {
		pod := &usage.Pods[i]
		namespace, name := pod.PodRef.Namespace, pod.PodRef.Name
		podCPU.cpu(pod.CPU, namespace, name)
		podMemory.workingSet(pod.Memory, namespace, name)
		for _, c := range pod.Containers {
			containerCPU.cpu(c.CPU, c.Name, namespace, name)
			containerMemory.workingSet(c.Memory, c.Name, namespace, name)
			if !c.StartTime.IsZero() {
				containerStart.sample(seconds(uint64(c.StartTime.UnixNano())), time.Time{}, c.Name, namespace, name)
			}
		}
	}
	e.serve(w)
}

// cadvisorMetrics serves the series of cAdvisor that the runtime and the machine can fill.
func (s *Server) cadvisorMetrics(w http.ResponseWriter, r *http.Request) {
	usage, err := s.usage(r.Context())
	if err != nil {
		http.Error(w, err.Error(), runtimeCode(err))
		return
	}
	statuses := map[string]*corev1.Pod{}
	for pod := range s.config.Pods.All() {
		statuses[string(pod.UID)] = pod
	}
	var e exposition
	labels := []string{"container", "id", "image", "name", "namespace", "pod"}
	cpu := e.add("container_cpu_usage_seconds_total", "counter", "Cumulative cpu time consumed in seconds.", append(labels, "cpu")...)
	seen := e.add("container_last_seen", "gauge", "Last time a container was seen by the exporter", labels...)
	rss := e.add("container_memory_rss", "gauge", "Size of RSS in bytes.", labels...)
	used := e.add("container_memory_usage_bytes", "gauge", "Current memory usage in bytes, including all memory regardless of when it was accessed", labels...)
	workingSet := e.add("container_memory_working_set_bytes", "gauge", "Current working set in bytes.", labels...)
	started := e.add("container_start_time_seconds", "gauge", "Start time of the container since unix epoch in seconds.", labels...)
	cores := e.add("machine_cpu_cores", "gauge", "Number of logical CPU cores.")
	memory := e.add("machine_memory_bytes", "gauge", "Amount of memory installed on the machine.")
	for _, pod := range usage.Pods {
		for i := range pod.Containers {
			c := &pod.Containers[i]
			image := ""
			if p := statuses[pod.PodRef.UID]; p != nil {
				if status := runningStatus(p, c); status != nil {
					image = status.Image
				}
			}
			values := []string{c.Name, c.id, image, c.id, pod.PodRef.Namespace, pod.PodRef.Name}
			cpu.cpu(c.CPU, append(values, "total")...)
			workingSet.workingSet(c.Memory, values...)
			if m := c.Memory; m != nil {
				used.number(m.UsageBytes, m.Time.Time, values...)
				rss.number(m.RSSBytes, m.Time.Time, values...)
				seen.sample(float64(m.Time.Unix()), m.Time.Time, values...)
			}
			if !c.StartTime.IsZero() {
				started.sample(float64(c.StartTime.Unix()), time.Time{}, values...)
			}
		}
	}
	if m := usage.Node.Memory; m != nil && m.WorkingSetBytes != nil && m.AvailableBytes != nil {
		memory.sample(float64(*m.WorkingSetBytes+*m.AvailableBytes), time.Time{})
	}
	cores.sample(float64(runtime.NumCPU()), time.Time{})
	e.serve(w)
}

// cpu adds a sample of CPU time if it is known.
func (f *family) cpu(c *CPUStats, values ...string) {
	if c != nil && c.UsageCoreNanoSeconds != nil {
		f.sample(seconds(*c.UsageCoreNanoSeconds), c.Time.Time, values...)
	}
}

// workingSet adds a sample of memory if it is known.
func (f *family) workingSet(m *MemoryStats, values ...string) {
	if m != nil {
		f.number(m.WorkingSetBytes, m.Time.Time, values...)
	}
}

// number adds a sample if its value is known.
func (f *family) number(value *uint64, at time.Time, values ...string) {
	if value != nil {
		f.sample(float64(*value), at, values...)
	}
}

// seconds converts nanoseconds.
func seconds(nanoseconds uint64) float64 { return float64(nanoseconds) / float64(time.Second) }
