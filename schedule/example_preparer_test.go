package schedule_test

import (
	"fmt"

	"github.com/planekit/planekit/schedule"
)

// apart keeps pods with the same label app in different zones.
type apart struct{}

func (apart) Name() string { return "Apart" }

// Filter implements schedule.Predicate: a node alone says nothing.
func (apart) Filter(*schedule.PodInfo, *schedule.NodeInfo) schedule.Verdict { return schedule.Fits }

// Prepare implements schedule.Preparer.
func (apart) Prepare(p *schedule.PodInfo, c schedule.Cluster) func(*schedule.NodeInfo) schedule.Verdict {
	taken := map[string]bool{}
	for n := range c.Nodes() {
		for _, other := range n.Pods {
			if other.Pod.Labels["app"] == p.Pod.Labels["app"] {
				taken[n.Node.Labels["zone"]] = true
			}
		}
	}
	return func(n *schedule.NodeInfo) schedule.Verdict {
		if taken[n.Node.Labels["zone"]] {
			return schedule.Refuse("node(s) were in a zone of the same app")
		}
		return schedule.Fits
	}
}

// Wakes implements schedule.Waker: of all pods, only one of the same app that leaves can help.
func (apart) Wakes(p *schedule.PodInfo, e schedule.Event) bool {
	old, _, isPod := schedule.Changed[*schedule.PodInfo](e)
	return !isPod || old != nil && old.Pod.Labels["app"] == p.Pod.Labels["app"]
}

// A predicate that depends on the pods on all nodes.
func ExamplePreparer() {
	state := schedule.NewState([]schedule.Predicate{apart{}}, nil, 1)
	for name, zone := range map[string]string{"a1": "a", "a2": "a", "b1": "b"} {
		n := node(name, "4", "8Gi", "110")
		n.Labels = map[string]string{"zone": zone}
		state.SetNode(n)
	}
	web := func(name string) *schedule.PodInfo {
		p := pod(name, "", "")
		p.Labels = map[string]string{"app": "web"}
		return schedule.NewPodInfo(p)
	}
	state.Assume(web("one"), "a1")
	chosen, _ := state.Decide(web("two"))
	fmt.Println(chosen)
	state.Assume(web("two"), chosen)
	_, unfit := state.Decide(web("three"))
	fmt.Println(unfit)
	fmt.Println("helps:", state.Helps(unfit, state.RemovePod("default/one")))
	// Output:
	// b1
	// 0/3 nodes are available: 3 node(s) were in a zone of the same app.
	// helps: true
}
