package main

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
)

// A workload makes worlds of any size.
type workload struct {
	name string
	// is says what the pods need.
	is   string
	make func(nodes, pods int) *world
}

// workloads are all of them.
func workloads() []workload {
	return []workload{
		{"basic", "100m of CPU and 500 MiB", worldOf(nil)},
		{"nodeaffinity", "basic, and two of ten zones by required node affinity", worldOf(nodeAffinity)},
		{"spread", "basic, and groups of 100 evenly over ten zones (DoNotSchedule, maxSkew 1)", worldOf(spread)},
		{"podaffinity", "basic, and groups of 100 each in one zone by required pod affinity", worldOf(podAffinity)},
		{"antiaffinity", "basic, and groups each on as many nodes by required anti-affinity", worldOf(antiAffinity)},
		{"preemption", "a quarter of a node, all of which are full of pods with a lower priority", preemption},
		{"churn", "all of the above but preemption, while pods leave, nodes change and nodes join", churn},
		{"unique", "all constraints of its own, so that no two pods are alike", worldOf(unique)},
	}
}

// worldOf returns the make of a workload whose pods have a constraint each; nil means none.
func worldOf(constrain func(pod *corev1.Pod, i, nodes int)) func(nodes, pods int) *world {
	return func(nodes, pods int) *world {
		w := &world{}
		for i := range nodes {
			w.nodes = append(w.nodes, newNode(i))
		}
		for i := range pods {
			pod := newPod(fmt.Sprintf("pod-%d", i), app(i, groupSize))
			if constrain != nil {
				constrain(pod, i, nodes)
			}
			w.pending = append(w.pending, pod)
		}
		return w
	}
}

// app returns the name of the group of pod i.
func app(i, size int) string { return fmt.Sprintf("app-%d", i/size) }

func nodeAffinity(pod *corev1.Pod, i, _ int) {
	group := i / groupSize
	setNodeAffinity(pod, corev1.NodeSelectorRequirement{
		Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpIn, Values: []string{zone(group), zone(group + 1)},
	})
}

func setNodeAffinity(pod *corev1.Pod, requirements ...corev1.NodeSelectorRequirement) {
	affinityOf(pod).NodeAffinity = &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{
		NodeSelectorTerms: []corev1.NodeSelectorTerm{{MatchExpressions: requirements}},
	}}
}

func affinityOf(pod *corev1.Pod) *corev1.Affinity {
	if pod.Spec.Affinity == nil {
		pod.Spec.Affinity = &corev1.Affinity{}
	}
	return pod.Spec.Affinity
}

func spread(pod *corev1.Pod, _, _ int) {
	pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelTopologyZone, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: sameApp(pod),
	}}
}

func podAffinity(pod *corev1.Pod, _, _ int) {
	affinityOf(pod).PodAffinity = &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
		{TopologyKey: corev1.LabelTopologyZone, LabelSelector: sameApp(pod)},
	}}
}

// antiAffinity keeps the pods of a group apart; a group has at most half as many pods as there are nodes.
func antiAffinity(pod *corev1.Pod, i, nodes int) {
	pod.Labels["app"] = app(i, min(groupSize, max(1, nodes/2)))
	affinityOf(pod).PodAntiAffinity = &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
		{TopologyKey: corev1.LabelHostname, LabelSelector: sameApp(pod)},
	}}
}

// unique gives a pod a size, labels, tolerations and constraints that no other pod has. They leave
// most nodes, so that a node is found for each.
func unique(pod *corev1.Pod, i, nodes int) {
	pod.Labels["app"], pod.Labels["run"] = app(i, groupSize), fmt.Sprintf("run-%d", i)
	pod.Spec.Containers[0].Image = fmt.Sprintf("registry.example/app:%d", i)
	pod.Spec.Containers[0].Resources = requests(50+int64(i%100), 200+int64(i%601))
	pod.Spec.Tolerations = append(pod.Spec.Tolerations, corev1.Toleration{Key: fmt.Sprintf("tenant-%d", i), Operator: corev1.TolerationOpExists})
	setNodeAffinity(pod,
		corev1.NodeSelectorRequirement{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpNotIn, Values: []string{fmt.Sprintf("node-%d", i%nodes)}},
		corev1.NodeSelectorRequirement{Key: corev1.LabelTopologyZone, Operator: corev1.NodeSelectorOpNotIn, Values: []string{zone(i), fmt.Sprintf("tenant-%d", i)}},
	)
	self := sameApp(pod)
	self.MatchLabels = map[string]string{"run": pod.Labels["run"]}
	pod.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
		MaxSkew: 1, TopologyKey: corev1.LabelHostname, WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: self,
	}}
	affinityOf(pod).PodAntiAffinity = &corev1.PodAntiAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{
		{Weight: 1 + int32(i%100), PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: corev1.LabelHostname, LabelSelector: sameApp(pod)}},
	}}
}

// A node has room for lowPods pods of a low priority, or for highPods of a high one.
const (
	lowPods  = 16
	highPods = 4

	highClass    = "high"
	highPriority = 100
)

// preemption fills all nodes with pods of a low priority, of which each pending pod needs four to end. There
// are at most as many pending pods as half of the nodes have room for.
func preemption(nodes, pods int) *world {
	w := worldOf(nil)(nodes, min(pods, nodes*highPods/2))
	w.leave = true
	for i := range nodes * lowPods {
		pod := newPod(fmt.Sprintf("low-%d", i), app(i, groupSize))
		pod.Spec.Containers[0].Resources = requests(32_000/lowPods, 1000)
		w.placed = append(w.placed, placedOn(pod, w.nodes[i%nodes].Name))
	}
	for _, pod := range w.pending {
		pod.Spec.Priority, pod.Spec.PriorityClassName = new(int32(highPriority)), highClass
		pod.Spec.Containers[0].Resources = requests(32_000/highPods, 1000)
	}
	return w
}

// churn mixes the constraints. Before each decision one of four things happens: a pod that ran leaves, or a
// node reports its state, or a node is cordoned or no more, or another node joins.
func churn(nodes, pods int) *world {
	constraints := []func(*corev1.Pod, int, int){nil, nodeAffinity, spread, podAffinity, antiAffinity, unique}
	w := worldOf(func(pod *corev1.Pod, i, nodes int) {
		if constrain := constraints[i/groupSize%len(constraints)]; constrain != nil {
			constrain(pod, i, nodes)
		}
	})(nodes, pods)
	for i := range pods/4 + 1 {
		w.placed = append(w.placed, placedOn(newPod(fmt.Sprintf("old-%d", i), fmt.Sprintf("old-%d", i/groupSize)), w.nodes[i%nodes].Name))
	}
	w.leave = true
	w.before = func(i int) []change {
		node := w.nodes[i/4%nodes]
		switch i % 4 {
		case 0:
			return []change{{gone: w.placed[i/4]}}
		case 1:
			beat := node.DeepCopy()
			beat.Annotations = map[string]string{"beat": fmt.Sprint(i)}
			return []change{{node: beat}}
		case 2:
			cordoned := node.DeepCopy()
			cordoned.Spec.Unschedulable = i/4%20 == 0
			return []change{{node: cordoned}}
		}
		if i%100 != 3 {
			return nil
		}
		return []change{{node: newNode(nodes + i/100)}}
	}
	return w
}
