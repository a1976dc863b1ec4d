package podsecurity

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// checks returns the table of checks, in no particular order: the Pod Security Standards
// (https://kubernetes.io/docs/concepts/security/pod-security-standards/).
func checks() []check {
	since := func(minor int, f examine) revision { return revision{minor, f} }
	always := func(f examine) []revision { return []revision{since(0, f)} }
	return []check{
		{id: "appArmorProfile", level: Baseline, revisions: always(appArmor)},
		{id: "capabilities_baseline", level: Baseline, revisions: always(addedCapabilities)},
		{id: "hostNamespaces", level: Baseline, revisions: always(hostNamespaces)},
		{id: "hostPathVolumes", level: Baseline, revisions: always(hostPaths)},
		{id: "hostPorts", level: Baseline, revisions: always(hostPorts)},
		{id: "hostProbesAndHostLifecycle", level: Baseline, revisions: []revision{since(34, probedHosts)}},
		{id: "privileged", level: Baseline, revisions: always(privileged)},
		{id: "procMount", level: Baseline, revisions: []revision{since(0, procMount), since(35, unlessUserNamespace(procMount))}},
		{id: "seLinuxOptions", level: Baseline, revisions: []revision{since(0, seLinux("")), since(31, seLinux("container_engine_t"))}},
		{id: "seccompProfile_baseline", level: Baseline, revisions: []revision{since(0, seccompAnnotations), since(19, seccompProfile)}},
		{id: "sysctls", level: Baseline, revisions: []revision{
			since(0, sysctls(0)), since(27, sysctls(27)), since(29, sysctls(29)), since(32, sysctls(32)),
		}},
		{id: "windowsHostProcess", level: Baseline, revisions: always(hostProcess)},

		{id: "allowPrivilegeEscalation", level: Restricted, revisions: []revision{
			since(8, privilegeEscalation), since(25, unlessWindows(privilegeEscalation)),
		}},
		{id: "capabilities_restricted", level: Restricted, replaces: "capabilities_baseline", revisions: []revision{
			since(22, droppedCapabilities), since(25, unlessWindows(droppedCapabilities)),
		}},
		{id: "procMount_restricted", level: Restricted, replaces: "procMount", revisions: []revision{since(35, procMount)}},
		{id: "restrictedVolumes", level: Restricted, replaces: "hostPathVolumes", revisions: always(volumeTypes)},
		{id: "runAsNonRoot", level: Restricted, revisions: []revision{since(0, nonRoot), since(35, unlessUserNamespace(nonRoot))}},
		{id: "runAsUser", level: Restricted, revisions: []revision{since(23, rootUser), since(35, unlessUserNamespace(rootUser))}},
		{id: "seccompProfile_restricted", level: Restricted, replaces: "seccompProfile_baseline", revisions: []revision{
			since(19, requiredSeccomp), since(25, unlessWindows(requiredSeccomp)),
		}},
	}
}

// unlessWindows allows pods of Windows, which cannot have the fields that a check requires.
func unlessWindows(check examine) examine {
	return func(meta *metav1.ObjectMeta, spec *corev1.PodSpec) *Violation {
		if spec.OS != nil && spec.OS.Name == corev1.Windows {
			return nil
		}
		return check(meta, spec)
	}
}

// unlessUserNamespace allows pods in a user namespace, whose root is not that of the node.
func unlessUserNamespace(check examine) examine {
	return func(meta *metav1.ObjectMeta, spec *corev1.PodSpec) *Violation {
		if spec.HostUsers != nil && !*spec.HostUsers {
			return nil
		}
		return check(meta, spec)
	}
}
