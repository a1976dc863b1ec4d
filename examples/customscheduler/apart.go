package main

import "github.com/planekit/planekit/schedule"

// apart is a predicate that refuses nodes with a pod of the same app, in any namespace.
type apart struct{}

func (apart) Name() string { return "Apart" }

// Filter implements schedule.Predicate.
func (apart) Filter(p *schedule.PodInfo, n *schedule.NodeInfo) schedule.Verdict {
	for _, other := range n.Pods {
		if sameApp(p, other) {
			return schedule.Refuse("node(s) had a pod of the same app")
		}
	}
	return schedule.Fits
}

// Wakes implements schedule.Waker. It is optional: only a pod of the same app that leaves a node
// can help.
func (apart) Wakes(p *schedule.PodInfo, e schedule.Event) bool {
	old, _, _ := schedule.Changed[*schedule.PodInfo](e)
	return old != nil && sameApp(p, old)
}

func sameApp(a, b *schedule.PodInfo) bool {
	app := a.Pod.Labels["app"]
	return app != "" && app == b.Pod.Labels["app"]
}

// fewPods is a priority: the fewer pods a node has, the better.
func fewPods(_ *schedule.PodInfo, n *schedule.NodeInfo) int64 {
	return schedule.MaxScore - int64(len(n.Pods))
}
