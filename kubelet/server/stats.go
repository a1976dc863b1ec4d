package server

import (
	"cmp"
	"context"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/planekit/planekit/kubelet/volumestats"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Summary is the response of /stats/summary: CPU, memory and volumes of the Kubernetes kubelet's
// summary (k8s.io/kubelet/pkg/apis/stats/v1alpha1).
type Summary struct {
	Node NodeStats  `json:"node"`
	Pods []PodStats `json:"pods"`
}

// NodeStats holds the usage of the whole machine. Several nodes on one machine report the same.
type NodeStats struct {
	NodeName string       `json:"nodeName"`
	CPU      *CPUStats    `json:"cpu,omitempty"`
	Memory   *MemoryStats `json:"memory,omitempty"`
}

// PodStats holds the usage of a pod's containers, and their sum.
type PodStats struct {
	PodRef     PodReference     `json:"podRef"`
	StartTime  metav1.Time      `json:"startTime"`
	Containers []ContainerStats `json:"containers"`
	CPU        *CPUStats        `json:"cpu,omitempty"`
	Memory     *MemoryStats     `json:"memory,omitempty"`
	// Volumes holds the volumes of claims and those that are made for the pod alone.
	Volumes []volumestats.Stats `json:"volume,omitempty"`
}

// PodReference identifies a pod.
type PodReference struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	UID       string `json:"uid"`
}

// ContainerStats holds the usage of a running container. StartTime is the time in the pod's status;
// it is zero until that says that the container runs.
type ContainerStats struct {
	Name      string       `json:"name"`
	StartTime metav1.Time  `json:"startTime"`
	CPU       *CPUStats    `json:"cpu,omitempty"`
	Memory    *MemoryStats `json:"memory,omitempty"`

	id string // in the runtime
}

// CPUStats holds CPU time at a time. UsageNanoCores is the recent rate in 1e-9 CPUs; nil if it is
// not known yet.
type CPUStats struct {
	Time                 metav1.Time `json:"time"`
	UsageNanoCores       *uint64     `json:"usageNanoCores,omitempty"`
	UsageCoreNanoSeconds *uint64     `json:"usageCoreNanoSeconds,omitempty"`
}

// MemoryStats holds memory usage in bytes at a time. The working set is the memory that cannot be
// reclaimed easily.
type MemoryStats struct {
	Time            metav1.Time `json:"time"`
	AvailableBytes  *uint64     `json:"availableBytes,omitempty"`
	UsageBytes      *uint64     `json:"usageBytes,omitempty"`
	WorkingSetBytes *uint64     `json:"workingSetBytes,omitempty"`
	RSSBytes        *uint64     `json:"rssBytes,omitempty"`
}

// labelContainerName is the kubelet's label for the name of a container.
const labelContainerName = "io.kubernetes.container.name"

// volumesTimeout bounds the time that a summary waits for the statistics of all volumes.
const volumesTimeout = 15 * time.Second

// summary serves the usage of the node, its pods, their running containers and their volumes.
func (s *Server) summary(w http.ResponseWriter, r *http.Request) {
	out, err := s.usage(r.Context())
	if err != nil {
		http.Error(w, err.Error(), runtimeCode(err))
		return
	}
	if s.config.VolumeStats != nil && r.URL.Query().Get("only_cpu_and_memory") != "true" {
		ctx, cancel := context.WithTimeout(r.Context(), volumesTimeout)
		defer cancel()
		for i := range out.Pods {
			if pod, ok := s.config.Pods.Get(out.Pods[i].PodRef.Namespace + "/" + out.Pods[i].PodRef.Name); ok {
				out.Pods[i].Volumes = s.config.VolumeStats(ctx, pod)
			}
		}
	}
	writeJSON(w, &out)
}

// usage returns the usage of the node, its pods and their running containers.
func (s *Server) usage(ctx context.Context) (Summary, error) {
	containers, err := s.containerStats(ctx)
	if err != nil {
		return Summary{}, err
	}
	now := time.Now()
	out := Summary{Node: NodeStats{NodeName: s.config.NodeName}, Pods: []PodStats{}}
	out.Node.CPU, out.Node.Memory = machineStats("/proc", now)
	if out.Node.CPU != nil {
		out.Node.CPU.UsageNanoCores = s.rates.of("", now.UnixNano(), *out.Node.CPU.UsageCoreNanoSeconds)
	}
	for pod := range s.config.Pods.All() {
		if mine := containers[string(pod.UID)]; len(mine) > 0 {
			out.Pods = append(out.Pods, podStats(pod, mine))
		}
	}
	slices.SortFunc(out.Pods, func(a, b PodStats) int {
		return cmp.Or(cmp.Compare(a.PodRef.Namespace, b.PodRef.Namespace), cmp.Compare(a.PodRef.Name, b.PodRef.Name))
	})
	return out, nil
}

// containerStats returns the runtime's statistics of containers by the UID of their pod.
func (s *Server) containerStats(ctx context.Context) (map[string][]ContainerStats, error) {
	list, err := s.config.Runtime.ListContainerStats(ctx, &runtimeapi.ListContainerStatsRequest{})
	if err != nil {
		return nil, err
	}
	type place struct{ pod, name string }
	latest := map[place]*runtimeapi.ContainerStats{}
	for _, c := range list.GetStats() {
		labels := c.GetAttributes().GetLabels()
		at := place{labels[labelPodUID], labels[labelContainerName]}
		if c.GetCpu() == nil && c.GetMemory() == nil || at.pod == "" || at.name == "" {
			continue // not running, or not of a pod
		}
		attempt := c.GetAttributes().GetMetadata().GetAttempt()
		if have := latest[at]; have == nil || have.GetAttributes().GetMetadata().GetAttempt() < attempt {
			latest[at] = c
		}
	}
	out, live := map[string][]ContainerStats{}, map[string]bool{"": true}
	for at, c := range latest {
		id := c.GetAttributes().GetId()
		live[id] = true
		out[at.pod] = append(out[at.pod], ContainerStats{Name: at.name, id: id, CPU: s.cpuStats(id, c.GetCpu()), Memory: memoryStats(c.GetMemory())})
	}
	s.rates.keep(live)
	return out, nil
}

func podStats(pod *corev1.Pod, containers []ContainerStats) PodStats {
	out := PodStats{PodRef: PodReference{Name: pod.Name, Namespace: pod.Namespace, UID: string(pod.UID)}, Containers: containers}
	slices.SortFunc(containers, func(a, b ContainerStats) int { return cmp.Compare(a.Name, b.Name) })
	if pod.Status.StartTime != nil {
		out.StartTime = *pod.Status.StartTime
	}
	for i := range containers {
		c := &containers[i]
		if status := runningStatus(pod, c); status != nil {
			c.StartTime = status.State.Running.StartedAt
		}
		if c.CPU != nil {
			if out.CPU == nil {
				out.CPU = &CPUStats{Time: c.CPU.Time}
			}
			add(&out.CPU.UsageNanoCores, c.CPU.UsageNanoCores)
			add(&out.CPU.UsageCoreNanoSeconds, c.CPU.UsageCoreNanoSeconds)
		}
		if c.Memory != nil {
			if out.Memory == nil {
				out.Memory = &MemoryStats{Time: c.Memory.Time}
			}
			add(&out.Memory.UsageBytes, c.Memory.UsageBytes)
			add(&out.Memory.WorkingSetBytes, c.Memory.WorkingSetBytes)
			add(&out.Memory.RSSBytes, c.Memory.RSSBytes)
		}
	}
	return out
}

// runningStatus returns the reported status of a container that runs; nil if it is of another one.
func runningStatus(pod *corev1.Pod, c *ContainerStats) *corev1.ContainerStatus {
	status := containerStatus(pod, c.Name)
	if status == nil || status.State.Running == nil || !strings.HasSuffix(status.ContainerID, "://"+c.id) {
		return nil
	}
	return status
}

// add adds a value to a sum; nil values are unknown.
func add(sum **uint64, value *uint64) {
	if value == nil {
		return
	}
	if *sum == nil {
		*sum = new(uint64)
	}
	**sum += *value
}

func (s *Server) cpuStats(id string, c *runtimeapi.CpuUsage) *CPUStats {
	if c == nil {
		return nil
	}
	out := &CPUStats{Time: metav1.Unix(0, c.GetTimestamp()), UsageCoreNanoSeconds: valueOf(c.GetUsageCoreNanoSeconds())}
	if out.UsageCoreNanoSeconds == nil {
		out.UsageNanoCores = valueOf(c.GetUsageNanoCores())
		return out
	}
	// Do not use the runtime's rate: containerd reports 0 for a new container.
	out.UsageNanoCores = s.rates.of(id, c.GetTimestamp(), *out.UsageCoreNanoSeconds)
	return out
}

func memoryStats(m *runtimeapi.MemoryUsage) *MemoryStats {
	if m == nil {
		return nil
	}
	return &MemoryStats{
		Time: metav1.Unix(0, m.GetTimestamp()), AvailableBytes: valueOf(m.GetAvailableBytes()), UsageBytes: valueOf(m.GetUsageBytes()),
		WorkingSetBytes: valueOf(m.GetWorkingSetBytes()), RSSBytes: valueOf(m.GetRssBytes()),
	}
}

func valueOf(v *runtimeapi.UInt64Value) *uint64 {
	if v == nil {
		return nil
	}
	return &v.Value
}

// rates computes CPU rates from CPU times.
type rates struct {
	mu   sync.Mutex
	last map[string]rate
}

type rate struct {
	at    int64  // in nanoseconds since 1970
	total uint64 // CPU time in nanoseconds
	was   *uint64
}

// shortest is the minimum period of a rate, in nanoseconds. More frequent requests get the previous
// rate.
const shortest = int64(time.Second)

// of returns the rate since the previous call, in 1e-9 CPUs; nil for the first call and after the
// counter was reset.
func (r *rates) of(id string, at int64, total uint64) *uint64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	last, known := r.last[id]
	if known && at-last.at < shortest && total >= last.total {
		return last.was
	}
	now := rate{at: at, total: total}
	if known && total >= last.total && at > last.at {
		was := uint64(float64(total-last.total) / float64(at-last.at) * 1e9)
		now.was = &was
	}
	if r.last == nil {
		r.last = map[string]rate{}
	}
	r.last[id] = now
	return now.was
}

// keep removes all entries that are not live.
func (r *rates) keep(live map[string]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.last {
		if !live[id] {
			delete(r.last, id)
		}
	}
}
