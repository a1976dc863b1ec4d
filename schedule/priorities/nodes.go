package priorities

import (
	"slices"
	"strings"

	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/internal/nodematch"
	corev1 "k8s.io/api/core/v1"
)

// Taints prefers nodes with few taints of effect PreferNoSchedule that the pod does not tolerate.
func Taints() schedule.Priority {
	return normalized{byClass{"TaintToleration", func(p *schedule.PodInfo, _ schedule.Cluster) func(*schedule.NodeInfo) int64 {
		var tolerations []corev1.Toleration
		for _, t := range p.Pod.Spec.Tolerations {
			if t.Effect == "" || t.Effect == corev1.TaintEffectPreferNoSchedule {
				tolerations = append(tolerations, t)
			}
		}
		return func(n *schedule.NodeInfo) int64 {
			var hostile int64
			for i := range n.Node.Spec.Taints {
				if t := &n.Node.Spec.Taints[i]; t.Effect == corev1.TaintEffectPreferNoSchedule && !nodematch.Tolerated(tolerations, t) {
					hostile++
				}
			}
			return hostile
		}
	}}, fewestIsBest}
}

// NodeAffinity prefers nodes that match the preferred node affinity of the pod: the sum of the weights of
// the terms that match.
func NodeAffinity() schedule.Priority { return NodeAffinityAnd(nil) }

// NodeAffinityAnd is NodeAffinity with terms that count for all pods: the preferred part of addedAffinity in
// the configuration of the kube-scheduler.
func NodeAffinityAnd(added []corev1.PreferredSchedulingTerm) schedule.Priority {
	return normalized{byClass{"NodeAffinity", func(p *schedule.PodInfo, _ schedule.Cluster) func(*schedule.NodeInfo) int64 {
		terms := slices.Concat(added, preferred(p.Pod))
		if len(terms) == 0 {
			return nil
		}
		matches := make([]func(*corev1.Node) bool, len(terms))
		for i := range terms {
			matches[i] = nodematch.Term(&terms[i].Preference)
		}
		return func(n *schedule.NodeInfo) int64 {
			var sum int64
			for i := range terms {
				if matches[i](n.Node) {
					sum += int64(terms[i].Weight)
				}
			}
			return sum
		}
	}}, asShareOfMost}
}

// The size of all images of a pod that makes a difference, in bytes, and that of each container above
// which a larger one makes none. The values are kube-scheduler's.
const (
	leastImages = 23 << 20
	mostImage   = 1000 << 20
)

// ImageLocality prefers nodes that have the images of the pod. A large image counts more than a small one,
// and one that many nodes have more than one that few have, so that a few nodes do not get all the pods.
func ImageLocality() schedule.Priority {
	return byClass{"ImageLocality", func(p *schedule.PodInfo, c schedule.Cluster) func(*schedule.NodeInfo) int64 {
		if c == nil {
			return nil // of one node alone nothing can be said
		}
		spec := &p.Pod.Spec
		containers := int64(len(spec.Containers) + len(spec.InitContainers))
		images := imagesOf(spec)
		shares := make([]float64, len(images))
		anywhere := false
		for i, name := range images {
			on := c.NodesWithImage(name)
			shares[i] = float64(on) / float64(c.Size())
			anywhere = anywhere || on > 0
		}
		if !anywhere {
			return nil
		}
		most := mostImage * containers
		return func(n *schedule.NodeInfo) int64 {
			var sum int64
			for i, name := range images {
				sum += int64(float64(n.Images[name]) * shares[i])
			}
			sum = min(max(sum, leastImages), most)
			return schedule.MaxScore * (sum - leastImages) / (most - leastImages)
		}
	}}
}

// imagesOf returns the names of the images of containers and volumes, with a tag or a digest.
func imagesOf(spec *corev1.PodSpec) []string {
	var names []string
	add := func(name string) {
		if strings.LastIndex(name, ":") <= strings.LastIndex(name, "/") {
			name += ":latest"
		}
		names = append(names, name)
	}
	for i := range spec.InitContainers {
		add(spec.InitContainers[i].Image)
	}
	for i := range spec.Containers {
		add(spec.Containers[i].Image)
	}
	for i := range spec.Volumes {
		if image := spec.Volumes[i].Image; image != nil {
			add(image.Reference)
		}
	}
	return names
}
