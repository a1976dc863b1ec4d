package priorities_test

import (
	"testing"

	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/priorities"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// best returns the node with the higher score of a priority, of a and b, or "" if both have the same. Pods are
// on the nodes that they name.
func best(priority schedule.Priority, p *corev1.Pod, pods ...*corev1.Pod) string {
	s := schedule.NewState(nil, []schedule.Weighted{{Priority: priority}}, 1)
	for _, name := range []string{"a", "b"} {
		s.SetNode(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"name": name}}})
	}
	for _, p := range pods {
		s.SetPod(schedule.NewPodInfo(p))
	}
	nodes := s.Explain(schedule.NewPodInfo(p))
	if nodes[0].Total == nodes[1].Total {
		return ""
	}
	return nodes[0].Node
}

// TestNodeAffinityAnd checks that the terms of the scheduler count for all pods.
func TestNodeAffinityAnd(t *testing.T) {
	term := func(name string, weight int32) corev1.PreferredSchedulingTerm {
		return corev1.PreferredSchedulingTerm{Weight: weight, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{
			{Key: "name", Operator: corev1.NodeSelectorOpIn, Values: []string{name}}}}}
	}
	own := func(terms ...corev1.PreferredSchedulingTerm) *corev1.Pod {
		return &corev1.Pod{Spec: corev1.PodSpec{Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
			PreferredDuringSchedulingIgnoredDuringExecution: terms}}}}
	}
	added := []corev1.PreferredSchedulingTerm{term("b", 10)}
	for _, test := range []struct {
		added []corev1.PreferredSchedulingTerm
		pod   *corev1.Pod
		want  string
	}{
		{nil, own(), ""},
		{nil, own(term("a", 1)), "a"},
		{added, &corev1.Pod{}, "b"},
		{added, own(term("a", 1)), "b"},
		{added, own(term("a", 11)), "a"},
	} {
		if got := best(priorities.NodeAffinityAnd(test.added), test.pod); got != test.want {
			t.Errorf("%v: %q, want %q", test.pod.Spec.Affinity, got, test.want)
		}
	}
}

// TestPodAffinityOwn checks that pods on nodes attract only pods that have preferences of their own.
func TestPodAffinityOwn(t *testing.T) {
	near := func(name, node, app string) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", Labels: map[string]string{"app": name}}, Spec: corev1.PodSpec{NodeName: node}}
		if app != "" {
			p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{PreferredDuringSchedulingIgnoredDuringExecution: []corev1.WeightedPodAffinityTerm{{
				Weight: 5, PodAffinityTerm: corev1.PodAffinityTerm{TopologyKey: "name", LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": app}}}}}}}
		}
		return p
	}
	fan := near("fan", "b", "star")
	for _, test := range []struct {
		priority schedule.Priority
		pod      *corev1.Pod
		want     string
	}{
		{priorities.PodAffinityWeighted(1), near("star", "", ""), "b"},
		{priorities.PodAffinityOwn(1), near("star", "", ""), ""},
		{priorities.PodAffinityOwn(1), near("star", "", "nothing"), "b"},
		{priorities.PodAffinityOwn(1), near("other", "", "fan"), "b"},
	} {
		if got := best(test.priority, test.pod, fan); got != test.want {
			t.Errorf("%s: %q, want %q", test.pod.Name, got, test.want)
		}
	}
}
