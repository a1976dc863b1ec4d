package nodematch_test

import (
	"testing"

	"github.com/planekit/planekit/schedule/internal/nodematch"
	corev1 "k8s.io/api/core/v1"
)

// TestRequired checks that the selector and the terms must both match, and that a pod without either has
// nothing to match.
func TestRequired(t *testing.T) {
	term := corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: "zone", Operator: corev1.NodeSelectorOpIn, Values: []string{"a"}}}}
	both := &corev1.PodSpec{NodeSelector: map[string]string{"disk": "ssd"}, Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{
		RequiredDuringSchedulingIgnoredDuringExecution: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{term}}}}}
	match := nodematch.Required(both)
	for _, test := range []struct {
		labels map[string]string
		want   bool
	}{
		{map[string]string{"disk": "ssd", "zone": "a"}, true},
		{map[string]string{"disk": "hdd", "zone": "a"}, false},
		{map[string]string{"disk": "ssd", "zone": "b"}, false},
		{nil, false},
	} {
		n := &corev1.Node{}
		n.Labels = test.labels
		if got := match(n); got != test.want {
			t.Errorf("Required() of a node with the labels %v = %t, want %t", test.labels, got, test.want)
		}
	}
	for _, spec := range []*corev1.PodSpec{{}, {Affinity: &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}}} {
		if nodematch.Required(spec) != nil {
			t.Errorf("%+v must match something", spec)
		}
	}
}

// TestTolerated checks each operator, and what is no number.
func TestTolerated(t *testing.T) {
	taint := func(value string) *corev1.Taint {
		return &corev1.Taint{Key: "level", Value: value, Effect: corev1.TaintEffectNoSchedule}
	}
	for _, test := range []struct {
		operator corev1.TolerationOperator
		key      string
		value    string
		effect   corev1.TaintEffect
		taint    string
		want     bool
	}{
		{"", "level", "5", "", "5", true},
		{corev1.TolerationOpEqual, "level", "5", corev1.TaintEffectNoSchedule, "5", true},
		{corev1.TolerationOpEqual, "level", "5", corev1.TaintEffectNoExecute, "5", false},
		{corev1.TolerationOpEqual, "other", "5", "", "5", false},
		{corev1.TolerationOpExists, "", "", "", "x", true},
		{corev1.TolerationOpGt, "level", "5", "", "6", true},
		{corev1.TolerationOpGt, "level", "5", "", "5", false},
		{corev1.TolerationOpLt, "level", "5", "", "-4", true},
		{corev1.TolerationOpLt, "level", "5", "", "5", false},
		{corev1.TolerationOpLt, "level", "x", "", "4", false},
		{corev1.TolerationOpGt, "level", "5", "", "x", false},
		{corev1.TolerationOpGt, "level", "5", "", "9223372036854775808", false},
		{"Like", "level", "5", "", "5", false},
	} {
		list := []corev1.Toleration{{Key: "unrelated"}, {Key: test.key, Operator: test.operator, Value: test.value, Effect: test.effect}}
		if got := nodematch.Tolerated(list, taint(test.taint)); got != test.want {
			t.Errorf("Tolerated(%+v) for the taint level=%s = %t, want %t", list[1], test.taint, got, test.want)
		}
	}
}

// TestAdmits checks that a taint of effect PreferNoSchedule keeps no pod off, and each other one must be
// tolerated.
func TestAdmits(t *testing.T) {
	n := &corev1.Node{Spec: corev1.NodeSpec{Taints: []corev1.Taint{
		{Key: "soft", Effect: corev1.TaintEffectPreferNoSchedule}, {Key: "a", Effect: corev1.TaintEffectNoSchedule}, {Key: "b", Effect: corev1.TaintEffectNoExecute},
	}}}
	a, b := corev1.Toleration{Key: "a", Operator: corev1.TolerationOpExists}, corev1.Toleration{Key: "b", Operator: corev1.TolerationOpExists}
	if nodematch.Admits(n, []corev1.Toleration{a}) || nodematch.Admits(n, []corev1.Toleration{b}) || !nodematch.Admits(n, []corev1.Toleration{a, b}) {
		t.Error("each hard taint must be tolerated, and no other")
	}
}
