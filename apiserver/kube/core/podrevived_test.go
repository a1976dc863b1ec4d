package core

import (
	"testing"

	"github.com/planekit/planekit/apiserver/kube/internal/check"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TestRevived: a container that has ended for good cannot run again, unless the end of another one may restart
// all of the pod.
func TestRevived(t *testing.T) {
	rule := func(action corev1.ContainerRestartRuleAction) []corev1.ContainerRestartRule {
		return []corev1.ContainerRestartRule{{Action: action, ExitCodes: &corev1.ContainerRestartRuleOnExitCodes{
			Operator: corev1.ContainerRestartRuleOnExitCodesOpIn, Values: []int32{42},
		}}}
	}
	never := corev1.ContainerRestartPolicyNever
	for _, test := range []struct {
		name  string
		rules []corev1.ContainerRestartRule
		init  bool // the rules are those of an init container
		want  int
	}{
		{"no rules", nil, false, 1},
		{"restarts itself", rule(corev1.ContainerRestartRuleActionRestart), false, 1},
		{"restarts all", rule(corev1.ContainerRestartRuleActionRestartAllContainers), false, 0},
		{"init restarts all", rule(corev1.ContainerRestartRuleActionRestartAllContainers), true, 0},
	} {
		old := &corev1.Pod{Spec: corev1.PodSpec{
			RestartPolicy:  corev1.RestartPolicyNever,
			InitContainers: []corev1.Container{{Name: "init", RestartPolicy: &never}},
			Containers:     []corev1.Container{{Name: "web"}, {Name: "other", RestartPolicy: &never}},
		}}
		if test.init {
			old.Spec.InitContainers[0].RestartPolicyRules = test.rules
		} else {
			old.Spec.Containers[1].RestartPolicyRules = test.rules
		}
		old.Status.ContainerStatuses = []corev1.ContainerStatus{{Name: "web", State: corev1.ContainerState{Terminated: &corev1.ContainerStateTerminated{ExitCode: 1}}}}
		now := old.DeepCopy()
		now.Status.ContainerStatuses[0].State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}
		var ps check.Problems
		checkRevived(&ps, field.NewPath("status", "containerStatuses"), now, old)
		if len(ps.List) != test.want {
			t.Errorf("%s: checkRevived finds %v, want %d problems", test.name, ps.List, test.want)
		}
	}
}
