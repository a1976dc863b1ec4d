package admission

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Host describes what a machine can enforce. The zero Host is a Linux machine with AppArmor and an
// unknown kernel, on which pods set only the oldest of the safe sysctls.
type Host struct {
	// OS is the operating system, with Go's name; empty means linux.
	OS string
	// Kernel is the release of the kernel, such as 6.1.0-13-amd64. It decides which sysctls are safe.
	Kernel string
	// AllowedUnsafeSysctls are further sysctls that pods may set. A name may end with an asterisk.
	AllowedUnsafeSysctls []string
	// AppArmor says why AppArmor profiles cannot be enforced; nil if they can.
	AppArmor error
}

// Handlers returns the checks of Kubernetes' kubelet for a machine, in its order.
func Handlers(h Host) ([]Handler, error) {
	if h.OS == "" {
		h.OS = string(corev1.Linux)
	}
	sysctls, err := newSysctls(h)
	if err != nil {
		return nil, err
	}
	return []Handler{
		sysctls,
		HandlerFunc(h.system),
		HandlerFunc(general),
		HandlerFunc(h.appArmor),
		HandlerFunc(declaredFeatures),
	}, nil
}

// system checks what the machine's operating system and runtime support. Making room for the pod
// would not help, so this comes before the check of resources.
func (h Host) system(r Request) Verdict {
	if label, ok := r.Pod.Labels[corev1.LabelOSStable]; ok && label != h.OS {
		return Verdict{Reason: "PodOSSelectorNodeLabelDoesNotMatch", Message: "Failed to admit pod as the `kubernetes.io/os` label doesn't match node label"}
	}
	if os := r.Pod.Spec.OS; os != nil && string(os.Name) != h.OS {
		return Verdict{Reason: "PodOSNotSupported", Message: "Failed to admit pod as the OS field doesn't match node OS"}
	}
	if s := r.Pod.Spec.SecurityContext; s != nil && s.SupplementalGroupsPolicy != nil && *s.SupplementalGroupsPolicy == corev1.SupplementalGroupsPolicyStrict {
		f := r.Node.Status.Features
		if f == nil || f.SupplementalGroupsPolicy == nil || !*f.SupplementalGroupsPolicy {
			return Verdict{Reason: "SupplementalGroupsPolicyNotSupported", Message: "SupplementalGroupsPolicy=Strict is not supported in this node"}
		}
	}
	return Verdict{}
}

// FeatureRestartAll is the feature of restarting all containers of a pod in place, with its name in the
// Node's status.
const FeatureRestartAll = "RestartAllContainersOnContainerExits"

// features are the features that a pod can need and a node must declare, in the order of messages.
var features = []struct {
	name  string
	needs func(*corev1.PodSpec) bool
}{
	{FeatureRestartAll, func(s *corev1.PodSpec) bool {
		return restartsAll(s.Containers) || restartsAll(s.InitContainers)
	}},
	{"UserNamespacesHostNetworkSupport", func(s *corev1.PodSpec) bool {
		return s.HostNetwork && s.HostUsers != nil && !*s.HostUsers
	}},
}

func restartsAll(containers []corev1.Container) bool {
	for i := range containers {
		for _, rule := range containers[i].RestartPolicyRules {
			if rule.Action == corev1.ContainerRestartRuleActionRestartAllContainers {
				return true
			}
		}
	}
	return false
}

// declaredFeatures refuses pods that need a feature that the node does not declare.
func declaredFeatures(r Request) Verdict {
	var missing []string
	for _, f := range features {
		if f.needs(&r.Pod.Spec) && !declares(r.Node, f.name) {
			missing = append(missing, f.name)
		}
	}
	if len(missing) == 0 {
		return Verdict{}
	}
	return Verdict{Reason: "PodFeatureUnsupported", Message: fmt.Sprintf("Pod requires node features that are not available: %s", strings.Join(missing, ", "))}
}

func declares(node *corev1.Node, feature string) bool {
	for _, f := range node.Status.DeclaredFeatures {
		if f == feature {
			return true
		}
	}
	return false
}
