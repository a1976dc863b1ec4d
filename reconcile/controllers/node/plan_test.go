package node

import (
	"maps"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestPlanTaints: a taint says since when it is there, and goes on saying so.
func TestPlanTaints(t *testing.T) {
	first, later := metav1.NewTime(time.Unix(1000, 0)), metav1.NewTime(time.Unix(2000, 0))
	node := &corev1.Node{Spec: corev1.NodeSpec{Unschedulable: true}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionFalse}}
	plan := func(lost, allowed bool, now metav1.Time) {
		planNoSchedule(node, now)
		planNoExecute(node, lost, now, func() bool { return allowed })
	}
	check := func(step string, want map[[2]string]metav1.Time) {
		t.Helper()
		got := map[[2]string]metav1.Time{}
		for _, taint := range node.Spec.Taints {
			if taint.TimeAdded == nil {
				t.Fatalf("%s: %v says no time", step, taint)
			}
			got[[2]string{taint.Key, string(taint.Effect)}] = *taint.TimeAdded
		}
		if !maps.Equal(got, want) || len(node.Spec.Taints) != len(want) {
			t.Errorf("%s: taints %v, want %v", step, node.Spec.Taints, want)
		}
	}
	cordoned := [2]string{corev1.TaintNodeUnschedulable, "NoSchedule"}
	notReady, drives := [2]string{corev1.TaintNodeNotReady, "NoSchedule"}, [2]string{corev1.TaintNodeNotReady, "NoExecute"}
	silent, drivesSilent := [2]string{corev1.TaintNodeUnreachable, "NoSchedule"}, [2]string{corev1.TaintNodeUnreachable, "NoExecute"}
	plan(false, false, first)
	check("not allowed", map[[2]string]metav1.Time{cordoned: first, notReady: first})
	plan(false, true, later)
	check("allowed", map[[2]string]metav1.Time{cordoned: first, notReady: first, drives: later})
	node.Status.Conditions[0].Status = corev1.ConditionUnknown
	plan(false, false, later)
	check("silent: one for the other", map[[2]string]metav1.Time{cordoned: first, silent: later, drivesSilent: later})
	plan(true, true, later)
	check("all lost", map[[2]string]metav1.Time{cordoned: first, silent: later})
	node.Spec.Unschedulable, node.Status.Conditions[0].Status = false, corev1.ConditionTrue
	plan(false, true, later)
	check("well", map[[2]string]metav1.Time{})
}

// TestPlanLabels: the old names say what the new ones do, and nothing where those
// are missing.
func TestPlanLabels(t *testing.T) {
	for name, test := range map[string]struct{ have, want map[string]string }{
		"none":    {nil, nil},
		"neither": {map[string]string{"a": "b", "beta.kubernetes.io/os": "linux"}, map[string]string{"a": "b", "beta.kubernetes.io/os": "linux"}},
		"new only": {map[string]string{"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64"},
			map[string]string{"kubernetes.io/os": "linux", "kubernetes.io/arch": "amd64", "beta.kubernetes.io/os": "linux", "beta.kubernetes.io/arch": "amd64"}},
		"another": {map[string]string{"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "windows"},
			map[string]string{"kubernetes.io/os": "linux", "beta.kubernetes.io/os": "linux"}},
	} {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: test.have}}
		if planLabels(node); !maps.Equal(node.Labels, test.want) {
			t.Errorf("%s: labels %v, want %v", name, node.Labels, test.want)
		}
	}
}

// TestMarkUnknown: what was known is not any more, since now; what was unknown before
// is so since then, and for the reason it was; what is not the kubelet's to say stays.
func TestMarkUnknown(t *testing.T) {
	created, before, now := metav1.NewTime(time.Unix(500, 0)), metav1.NewTime(time.Unix(1000, 0)), metav1.NewTime(time.Unix(2000, 0))
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{CreationTimestamp: created}}
	network := corev1.NodeCondition{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse, LastTransitionTime: before}
	unknown := corev1.NodeCondition{Type: corev1.NodeDiskPressure, Status: corev1.ConditionUnknown, LastTransitionTime: before, Reason: "NodeStatusNeverUpdated"}
	node.Status.Conditions = []corev1.NodeCondition{network, unknown,
		{Type: corev1.NodeReady, Status: corev1.ConditionFalse, LastHeartbeatTime: before, LastTransitionTime: before, Reason: "KubeletNotReady", Message: "starting"}}
	never := func(kind corev1.NodeConditionType) corev1.NodeCondition {
		return corev1.NodeCondition{Type: kind, Status: corev1.ConditionUnknown, LastHeartbeatTime: created, LastTransitionTime: now,
			Reason: "NodeStatusNeverUpdated", Message: "Kubelet never posted node status."}
	}
	want := []corev1.NodeCondition{network, unknown,
		{Type: corev1.NodeReady, Status: corev1.ConditionUnknown, LastHeartbeatTime: before, LastTransitionTime: now,
			Reason: "NodeStatusUnknown", Message: "Kubelet stopped posting node status."},
		never(corev1.NodeMemoryPressure), never(corev1.NodePIDPressure)}
	for _, at := range []metav1.Time{now, metav1.NewTime(time.Unix(3000, 0))} {
		if markUnknown(node, at); !slices.Equal(node.Status.Conditions, want) {
			t.Errorf("at %s: conditions %+v, want %+v", at.UTC(), node.Status.Conditions, want)
		}
	}
}
