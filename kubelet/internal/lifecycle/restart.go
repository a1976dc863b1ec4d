package lifecycle

import (
	"slices"

	corev1 "k8s.io/api/core/v1"
)

// restarts reports whether a container that is not running runs again: by the first of its rules that
// matches its exit code, or else by its own policy, or else by the policy of the pod.
// https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#restart-policy
func restarts(spec *corev1.Container, pod corev1.RestartPolicy, c *Container) bool {
	if c.Phase == Exited && ruleFor(spec, c.ExitCode) != nil {
		return true
	}
	switch policyOf(spec, pod) {
	case corev1.RestartPolicyNever:
		return c.Phase == Created
	case corev1.RestartPolicyOnFailure:
		return c.Phase != Exited || c.ExitCode != 0
	}
	return true
}

// policyOf returns the restart policy of a container in a pod with a policy.
func policyOf(spec *corev1.Container, pod corev1.RestartPolicy) corev1.RestartPolicy {
	if spec.RestartPolicy != nil {
		return corev1.RestartPolicy(*spec.RestartPolicy)
	}
	return pod
}

// ruleFor returns the first rule of a container that matches an exit code; nil if none does. Every action of
// a rule restarts the container.
func ruleFor(spec *corev1.Container, code int32) *corev1.ContainerRestartRule {
	for i := range spec.RestartPolicyRules {
		if rule := &spec.RestartPolicyRules[i]; matches(rule, code) {
			return rule
		}
	}
	return nil
}

// matches reports whether a rule is about an exit code.
func matches(r *corev1.ContainerRestartRule, code int32) bool {
	if r.ExitCodes == nil {
		return false
	}
	in := slices.Contains(r.ExitCodes.Values, code)
	return in == (r.ExitCodes.Operator == corev1.ContainerRestartRuleOnExitCodesOpIn)
}

// initPolicy returns the policy of init containers in a pod with a policy. One that has succeeded does
// not run again.
func initPolicy(pod corev1.RestartPolicy) corev1.RestartPolicy {
	if pod == corev1.RestartPolicyAlways {
		return corev1.RestartPolicyOnFailure
	}
	return pod
}

// neverRestarts reports whether no container of a pod but its sidecars ever runs again.
func neverRestarts(pod *corev1.Pod) bool {
	again := func(c *corev1.Container) bool {
		return policyOf(c, pod.Spec.RestartPolicy) != corev1.RestartPolicyNever || len(c.RestartPolicyRules) > 0
	}
	for i := range pod.Spec.Containers {
		if again(&pod.Spec.Containers[i]) {
			return false
		}
	}
	for i := range pod.Spec.InitContainers {
		if c := &pod.Spec.InitContainers[i]; !IsSidecar(c) && again(c) {
			return false
		}
	}
	return true
}
