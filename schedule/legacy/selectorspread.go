package legacy

import (
	"cmp"

	"github.com/planekit/planekit/schedule"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// zoneWeight is the part of the zone in the score of a node that has one.
const zoneWeight float64 = 2.0 / 3.0

// SelectorSpread prefers nodes, and zones, with few pods of the services and the controller of a pod.
// selector returns which pods belong together with a pod: see package workload. A pod with topology spread
// constraints of its own likes all nodes the same.
func SelectorSpread(selector func(*corev1.Pod) labels.Selector) schedule.Priority {
	return survey{"SelectorSpread", func(p *schedule.PodInfo, c schedule.Cluster, nodes []*schedule.NodeInfo) func(*schedule.NodeInfo) int64 {
		if len(p.Pod.Spec.TopologySpreadConstraints) > 0 {
			return nil
		}
		on := staying(c, p.Pod.Namespace, selector(p.Pod))
		mostOnNode, byZone := int64(0), make(map[string]int64)
		for _, n := range nodes {
			mostOnNode = max(mostOnNode, on(n))
			if zone := zoneOf(n.Node); zone != "" {
				byZone[zone] += on(n)
			}
		}
		mostInZone := int64(0)
		for _, pods := range byZone {
			mostInZone = max(mostInZone, pods)
		}
		return func(n *schedule.NodeInfo) int64 {
			score := shareLeft(on(n), mostOnNode)
			if zone := zoneOf(n.Node); zone != "" {
				score = score*(1-zoneWeight) + zoneWeight*shareLeft(byZone[zone], mostInZone)
			}
			return int64(score)
		}
	}}
}

// zoneOf returns a name of the zone of a node that is unique over regions, or "".
func zoneOf(n *corev1.Node) string {
	zone := cmp.Or(n.Labels[corev1.LabelFailureDomainBetaZone], n.Labels[corev1.LabelTopologyZone])
	region := cmp.Or(n.Labels[corev1.LabelFailureDomainBetaRegion], n.Labels[corev1.LabelTopologyRegion])
	if zone == "" && region == "" {
		return ""
	}
	return region + "\x00" + zone
}
