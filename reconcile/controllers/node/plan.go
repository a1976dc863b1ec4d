package node

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// markUnknown sets every condition that the kubelet maintains to Unknown.
func markUnknown(node *corev1.Node, now metav1.Time) {
	for _, kind := range []corev1.NodeConditionType{corev1.NodeReady, corev1.NodeMemoryPressure, corev1.NodeDiskPressure, corev1.NodePIDPressure} {
		i := slices.IndexFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool { return c.Type == kind })
		if i < 0 {
			node.Status.Conditions = append(node.Status.Conditions, corev1.NodeCondition{
				Type: kind, Status: corev1.ConditionUnknown, LastHeartbeatTime: node.CreationTimestamp, LastTransitionTime: now,
				Reason: "NodeStatusNeverUpdated", Message: "Kubelet never posted node status.",
			})
		} else if c := &node.Status.Conditions[i]; c.Status != corev1.ConditionUnknown {
			c.Status, c.LastTransitionTime = corev1.ConditionUnknown, now
			c.Reason, c.Message = "NodeStatusUnknown", "Kubelet stopped posting node status."
		}
	}
}

// conditionTaints maps the status of a node condition to the taint that keeps new pods off the
// node.
var conditionTaints = []struct {
	condition corev1.NodeConditionType
	status    corev1.ConditionStatus
	taint     string
}{
	{corev1.NodeReady, corev1.ConditionFalse, corev1.TaintNodeNotReady},
	{corev1.NodeReady, corev1.ConditionUnknown, corev1.TaintNodeUnreachable},
	{corev1.NodeMemoryPressure, corev1.ConditionTrue, corev1.TaintNodeMemoryPressure},
	{corev1.NodeDiskPressure, corev1.ConditionTrue, corev1.TaintNodeDiskPressure},
	{corev1.NodePIDPressure, corev1.ConditionTrue, corev1.TaintNodePIDPressure},
	{corev1.NodeNetworkUnavailable, corev1.ConditionTrue, corev1.TaintNodeNetworkUnavailable},
}

// planNoSchedule gives node the NoSchedule taints that its conditions call for, and removes the
// other ones of that kind.
func planNoSchedule(node *corev1.Node, now metav1.Time) {
	for _, t := range conditionTaints {
		setTaint(node, t.taint, corev1.TaintEffectNoSchedule, now, slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
			return c.Type == t.condition && c.Status == t.status
		}))
	}
	setTaint(node, corev1.TaintNodeUnschedulable, corev1.TaintEffectNoSchedule, now, node.Spec.Unschedulable)
}

// planNoExecute gives node the NoExecute taint that its readiness calls for, and removes the other
// one. A first taint needs allowance, because it evicts pods; one that replaces the other does not.
// If all nodes seem lost, both are removed.
func planNoExecute(node *corev1.Node, lost bool, now metav1.Time, allow func() bool) {
	want := ""
	if c := nodeReady(node); c != nil && !lost {
		switch c.Status {
		case corev1.ConditionFalse:
			want = corev1.TaintNodeNotReady
		case corev1.ConditionUnknown:
			want = corev1.TaintNodeUnreachable
		}
	}
	drives := slices.ContainsFunc(node.Spec.Taints, func(t corev1.Taint) bool {
		return t.Effect == corev1.TaintEffectNoExecute && (t.Key == corev1.TaintNodeNotReady || t.Key == corev1.TaintNodeUnreachable)
	})
	if want != "" && !drives && !allow() {
		want = ""
	}
	for _, taint := range []string{corev1.TaintNodeNotReady, corev1.TaintNodeUnreachable} {
		setTaint(node, taint, corev1.TaintEffectNoExecute, now, taint == want)
	}
}

// betaLabels maps the present names of node labels to those before Kubernetes 1.14. Selectors with
// the old names work where a kubelet sets only the new ones.
var betaLabels = map[string]string{
	corev1.LabelOSStable:   "beta.kubernetes.io/os",
	corev1.LabelArchStable: "beta.kubernetes.io/arch",
}

// planLabels sets the old labels of node to the values of the new ones.
func planLabels(node *corev1.Node) {
	for name, old := range betaLabels {
		if value, ok := node.Labels[name]; ok {
			node.Labels[old] = value
		}
	}
}

// setTaint adds or removes one taint.
func setTaint(node *corev1.Node, key string, effect corev1.TaintEffect, since metav1.Time, tainted bool) {
	same := func(t corev1.Taint) bool { return t.Key == key && t.Effect == effect }
	switch has := slices.ContainsFunc(node.Spec.Taints, same); {
	case tainted && !has:
		node.Spec.Taints = append(node.Spec.Taints, corev1.Taint{Key: key, Effect: effect, TimeAdded: &since})
	case !tainted && has:
		node.Spec.Taints = slices.DeleteFunc(node.Spec.Taints, same)
	}
}
