package simulate

import (
	"maps"
	"slices"
	"time"

	"github.com/planekit/planekit/schedule"
	corev1 "k8s.io/api/core/v1"
)

// Usage is how full the cluster is. The lists are in the order of [Result].Resources.
type Usage struct {
	// Requested is the share of the allocatable amount that the pods on nodes request; 1 is all of it.
	Requested []float64 `json:"requested"`
	// Fragmentation is the share of the free amount that is on nodes where the mean pod of the workload
	// does not fit, by its CPU, its memory and the number of pods; 1 is all of it.
	Fragmentation []float64 `json:"fragmentation"`
	// NodesInUse is the number of nodes with pods, Running the number of pods on nodes, and Pending the
	// number of pods that wait for one.
	NodesInUse float64 `json:"nodesInUse"`
	Running    float64 `json:"running"`
	Pending    float64 `json:"pending"`
}

// A Sample is the usage from a time until the next sample.
type Sample struct {
	At time.Duration `json:"at"`
	Usage
}

// usage keeps account of the nodes. Its amounts are exact up to 2^53; CPU is in thousandths of a core.
type usage struct {
	resources []corev1.ResourceName // CPU, memory, then others
	nodes     map[string]*nodeUsage
	mean      [2]float64 // CPU and memory of the mean pod
	// capacity and requested are sums over the nodes; free is what is left, and stranded what is left on
	// nodes without room for the mean pod.
	capacity, requested, free, stranded []float64
	inUse, running                      int
	samples                             samples
}

// nodeUsage is the account of one node.
type nodeUsage struct {
	allocatable, requested []float64
	pods, maxPods          int64
}

func newUsage(w *Workload) *usage {
	u := &usage{nodes: make(map[string]*nodeUsage, len(w.Nodes))}
	others := map[corev1.ResourceName]bool{}
	for i := range w.Arrivals {
		r := schedule.NewPodInfo(w.Arrivals[i].Pod).Requests
		u.mean[0] += float64(r.MilliCPU) / float64(len(w.Arrivals))
		u.mean[1] += float64(r.Memory) / float64(len(w.Arrivals))
		if r.EphemeralStorage > 0 {
			others[corev1.ResourceEphemeralStorage] = true
		}
		for name := range r.Extended {
			others[name] = true
		}
	}
	u.resources = append([]corev1.ResourceName{corev1.ResourceCPU, corev1.ResourceMemory}, slices.Sorted(maps.Keys(others))...)
	size := len(u.resources)
	u.capacity, u.requested = make([]float64, size), make([]float64, size)
	u.free, u.stranded = make([]float64, size), make([]float64, size)
	for _, n := range w.Nodes {
		one := &nodeUsage{requested: make([]float64, size), maxPods: n.Status.Allocatable.Pods().Value()}
		for i, name := range u.resources {
			q := n.Status.Allocatable[name]
			amount := q.AsApproximateFloat64()
			if name == corev1.ResourceCPU {
				amount *= 1000
			}
			one.allocatable = append(one.allocatable, amount)
			u.capacity[i] += amount
		}
		u.nodes[n.Name] = one
		u.count(one, 1)
	}
	return u
}

// count adds what is left on a node to the sums, or with the sign -1 takes it out.
func (u *usage) count(n *nodeUsage, sign float64) {
	full := n.pods >= n.maxPods
	for i, need := range u.mean {
		full = full || n.allocatable[i]-n.requested[i] < need
	}
	for i := range u.resources {
		left := sign * max(0, n.allocatable[i]-n.requested[i])
		u.free[i] += left
		if full {
			u.stranded[i] += left
		}
	}
}

// add adds a pod to a node, or with the sign -1 takes it from there. A node that is unknown has no account.
func (u *usage) add(node string, r schedule.Resources, sign int) {
	u.running += sign
	n := u.nodes[node]
	if n == nil {
		return
	}
	u.count(n, -1)
	for i, name := range u.resources {
		amount := float64(sign) * float64(amountOf(&r, name))
		n.requested[i] += amount
		u.requested[i] += amount
	}
	before := n.pods
	n.pods += int64(sign)
	u.count(n, 1)
	if before == 0 || n.pods == 0 {
		u.inUse += sign
	}
}

func amountOf(r *schedule.Resources, name corev1.ResourceName) int64 {
	switch name {
	case corev1.ResourceCPU:
		return r.MilliCPU
	case corev1.ResourceMemory:
		return r.Memory
	case corev1.ResourceEphemeralStorage:
		return r.EphemeralStorage
	}
	return r.Extended[name]
}

// now returns the usage.
func (u *usage) now(pending int) Usage {
	return Usage{
		Requested: shares(u.requested, u.capacity), Fragmentation: shares(u.stranded, u.free),
		NodesInUse: float64(u.inUse), Running: float64(u.running), Pending: float64(pending),
	}
}

func shares(parts, wholes []float64) []float64 {
	out := make([]float64, len(parts))
	for i := range parts {
		if wholes[i] > 0 {
			out[i] = max(0, parts[i]/wholes[i])
		}
	}
	return out
}
