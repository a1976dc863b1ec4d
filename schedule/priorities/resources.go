package priorities

import (
	"math"

	"github.com/planekit/planekit/schedule"
	corev1 "k8s.io/api/core/v1"
)

// Resource is a resource that a score is about.
type Resource struct {
	Name corev1.ResourceName
	// Weight is its part of the score beside the weights of the other resources. Zero means 1.
	Weight int64
}

// cpuAndMemory are the resources of scores that name none.
var cpuAndMemory = []Resource{{corev1.ResourceCPU, 1}, {corev1.ResourceMemory, 1}}

// share holds the amounts of one resource of a node that pods request.
type share struct {
	before, after int64 // without and with the new pod
	all           int64
	weight        int64
}

// shares returns the share of each resource that the node has. An extended resource counts only if the
// pod requests it. With defaults, containers without requests count with 100m and 200Mi.
func shares(p *schedule.PodInfo, n *schedule.NodeInfo, list []Resource, defaults bool, yield func(share)) {
	wants, taken := &p.Requests, &n.Requested
	if defaults {
		wants, taken = &p.NonZero, &n.NonZero
	}
	for _, r := range list {
		s := share{weight: max(1, r.Weight)}
		var want int64
		switch r.Name {
		case corev1.ResourceCPU:
			s.before, s.all, want = taken.MilliCPU, n.Allocatable.MilliCPU, wants.MilliCPU
		case corev1.ResourceMemory:
			s.before, s.all, want = taken.Memory, n.Allocatable.Memory, wants.Memory
		case corev1.ResourceEphemeralStorage:
			s.before, s.all, want = n.Requested.EphemeralStorage, n.Allocatable.EphemeralStorage, p.Requests.EphemeralStorage
		default:
			if want = p.Requests.Extended[r.Name]; want == 0 {
				continue
			}
			s.before, s.all = n.Requested.Extended[r.Name], n.Allocatable.Extended[r.Name]
		}
		if s.after = s.before + want; s.all > 0 {
			yield(s)
		}
	}
}

// mean returns a priority that is the weighted mean of score over the resources.
func mean(name string, resources []Resource, score func(requested, all int64) int64) schedule.Priority {
	if len(resources) == 0 {
		resources = cpuAndMemory
	}
	return ofResources(name, func(p *schedule.PodInfo, n *schedule.NodeInfo) int64 {
		var sum, weights int64
		shares(p, n, resources, true, func(s share) {
			sum += score(s.after, s.all) * s.weight
			weights += s.weight
		})
		if weights == 0 {
			return 0
		}
		return sum / weights
	})
}

// ofResources returns a priority that needs only the resources of the pod and of the node.
func ofResources(name string, score func(*schedule.PodInfo, *schedule.NodeInfo) int64) schedule.Priority {
	return byClass{name, func(p *schedule.PodInfo, _ schedule.Cluster) func(*schedule.NodeInfo) int64 {
		return func(n *schedule.NodeInfo) int64 { return score(p, n) }
	}}
}

// LeastAllocated prefers nodes with the largest free share of the resources, so that pods spread. Without
// resources, it is about CPU and memory.
func LeastAllocated(resources ...Resource) schedule.Priority {
	return mean("LeastAllocated", resources, func(requested, all int64) int64 {
		return (all - min(requested, all)) * schedule.MaxScore / all
	})
}

// MostAllocated prefers nodes with the smallest free share of the resources, so that few nodes are used.
// Without resources, it is about CPU and memory.
func MostAllocated(resources ...Resource) schedule.Priority {
	return mean("MostAllocated", resources, func(requested, all int64) int64 {
		return min(requested, all) * schedule.MaxScore / all
	})
}

// Point is a point of the function of a [RequestedToCapacityRatio].
type Point struct {
	// Utilization is in percent of the capacity.
	Utilization int64
	// Score is from 0 to 10, as in the configuration of the kube-scheduler.
	Score int64
}

// maxPointScore is the highest score of a Point.
const maxPointScore = 10

// RequestedToCapacityRatio scores the requested share of each resource by a function of straight lines
// between points, which are in the order of their utilization. A resource with the score 0 does not
// count. Without resources, it is about CPU and memory.
func RequestedToCapacityRatio(points []Point, resources ...Resource) schedule.Priority {
	if len(resources) == 0 {
		resources = cpuAndMemory
	}
	return ofResources("RequestedToCapacityRatio", func(p *schedule.PodInfo, n *schedule.NodeInfo) int64 {
		var sum, weights int64
		shares(p, n, resources, true, func(s share) {
			if score := onLine(points, 100*min(s.after, s.all)/s.all); score > 0 {
				sum += score * s.weight
				weights += s.weight
			}
		})
		if weights == 0 {
			return 0
		}
		return int64(math.Round(float64(sum) / float64(weights)))
	})
}

// onLine returns the score of a utilization.
func onLine(points []Point, utilization int64) int64 {
	const scale = schedule.MaxScore / maxPointScore
	for i, right := range points {
		if utilization > right.Utilization {
			continue
		}
		if i == 0 {
			return right.Score * scale
		}
		left := points[i-1]
		return left.Score*scale + (right.Score-left.Score)*scale*(utilization-left.Utilization)/(right.Utilization-left.Utilization)
	}
	if len(points) == 0 {
		return 0
	}
	return points[len(points)-1].Score * scale
}

// BalancedAllocation prefers nodes of which the pod makes the requested shares of the resources more
// alike. A pod that requests none of them likes all nodes the same. Without resources, it is about CPU and
// memory.
func BalancedAllocation(resources ...Resource) schedule.Priority {
	if len(resources) == 0 {
		resources = cpuAndMemory
	}
	return byClass{"NodeResourcesBalancedAllocation", func(p *schedule.PodInfo, _ schedule.Cluster) func(*schedule.NodeInfo) int64 {
		if !requestsAny(p, resources) {
			return nil
		}
		before, after := make([]float64, 0, len(resources)), make([]float64, 0, len(resources))
		return func(n *schedule.NodeInfo) int64 {
			before, after = before[:0], after[:0]
			shares(p, n, resources, false, func(s share) {
				before = append(before, min(1, float64(s.before)/float64(s.all)))
				after = append(after, min(1, float64(s.after)/float64(s.all)))
			})
			const half = schedule.MaxScore / 2
			return half + (half+balance(after)-balance(before))/2
		}
	}}
}

// balance returns MaxScore if all fractions are the same, and less the further they are from their mean.
func balance(fractions []float64) int64 {
	var deviation float64
	switch len(fractions) {
	case 0, 1:
	case 2:
		deviation = math.Abs(fractions[0]-fractions[1]) / 2
	default:
		var sum, squares float64
		for _, f := range fractions {
			sum += f
		}
		mean := sum / float64(len(fractions))
		for _, f := range fractions {
			squares += (f - mean) * (f - mean)
		}
		deviation = math.Sqrt(squares / float64(len(fractions)))
	}
	return int64((1 - deviation) * schedule.MaxScore)
}

func requestsAny(p *schedule.PodInfo, resources []Resource) bool {
	for _, r := range resources {
		switch r.Name {
		case corev1.ResourceCPU:
			if p.Requests.MilliCPU > 0 {
				return true
			}
		case corev1.ResourceMemory:
			if p.Requests.Memory > 0 {
				return true
			}
		case corev1.ResourceEphemeralStorage:
			if p.Requests.EphemeralStorage > 0 {
				return true
			}
		default:
			if p.Requests.Extended[r.Name] > 0 {
				return true
			}
		}
	}
	return false
}
