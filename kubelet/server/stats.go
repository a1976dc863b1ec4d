package server

import (
	"cmp"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Summary is what /stats/summary answers: the part of the Kubernetes kubelet's
// summary (k8s.io/kubelet/pkg/apis/stats/v1alpha1) that is about CPU and memory.
type Summary struct {
	Node NodeStats  `json:"node"`
	Pods []PodStats `json:"pods"`
}

// NodeStats is what the machine uses as a whole. Several nodes on one machine say
// the same.
type NodeStats struct {
	NodeName string       `json:"nodeName"`
	CPU      *CPUStats    `json:"cpu,omitempty"`
	Memory   *MemoryStats `json:"memory,omitempty"`
}

// PodStats is what the containers of a pod use, and their sum.
type PodStats struct {
	PodRef     PodReference     `json:"podRef"`
	StartTime  metav1.Time      `json:"startTime"`
	Containers []ContainerStats `json:"containers"`
	CPU        *CPUStats        `json:"cpu,omitempty"`
	Memory     *MemoryStats     `json:"memory,omitempty"`
}

// PodReference names a pod.
type PodReference struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	UID       string `json:"uid"`
}

// ContainerStats is what a running container uses.
type ContainerStats struct {
	Name   string       `json:"name"`
	CPU    *CPUStats    `json:"cpu,omitempty"`
	Memory *MemoryStats `json:"memory,omitempty"`
}

// CPUStats is CPU time at a time. UsageNanoCores is the rate of late, in 1e-9 CPUs;
// nil where it is not known yet.
type CPUStats struct {
	Time                 metav1.Time `json:"time"`
	UsageNanoCores       *uint64     `json:"usageNanoCores,omitempty"`
	UsageCoreNanoSeconds *uint64     `json:"usageCoreNanoSeconds,omitempty"`
}

// MemoryStats is memory in bytes at a time. The working set is what cannot be
// taken away without harm.
type MemoryStats struct {
	Time            metav1.Time `json:"time"`
	AvailableBytes  *uint64     `json:"availableBytes,omitempty"`
	UsageBytes      *uint64     `json:"usageBytes,omitempty"`
	WorkingSetBytes *uint64     `json:"workingSetBytes,omitempty"`
	RSSBytes        *uint64     `json:"rssBytes,omitempty"`
}

// labelContainerName is the label by which the kubelet marks its containers.
const labelContainerName = "io.kubernetes.container.name"

// summary answers with what the node, its pods and their running containers use.
func (s *Server) summary(w http.ResponseWriter, r *http.Request) {
	containers, err := s.containerStats(r.Context())
	if err != nil {
		http.Error(w, err.Error(), runtimeCode(err))
		return
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
	data, err := json.Marshal(&out)
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(data)
}

// containerStats are the containers that the runtime knows to use something, by
// the UID of their pod.
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
			continue // it does not run, or is somebody else's
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
		out[at.pod] = append(out[at.pod], ContainerStats{Name: at.name, CPU: s.cpuStats(id, c.GetCpu()), Memory: memoryStats(c.GetMemory())})
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
	for _, c := range containers {
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

// add adds what is known to a sum.
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
	// Not the runtime's rate: containerd says 0 of a container that is new to it.
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

// rates makes rates of CPU times.
type rates struct {
	mu   sync.Mutex
	last map[string]rate
}

type rate struct {
	at    int64  // in nanoseconds since 1970
	total uint64 // CPU time in nanoseconds
	was   *uint64
}

// shortest is the least time that a rate is taken over: who asks more often gets
// the rate of before.
const shortest = int64(time.Second)

// of is the rate since it was last asked for, in 1e-9 CPUs; nil the first time, and
// when counting began anew.
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

// keep forgets all but those that are live.
func (r *rates) keep(live map[string]bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for id := range r.last {
		if !live[id] {
			delete(r.last, id)
		}
	}
}
