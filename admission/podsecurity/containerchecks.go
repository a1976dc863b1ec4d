package podsecurity

import (
	"slices"
	"strings"

	"github.com/planekit/planekit/admission/internal/podspec"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// containersWhere returns the names of the containers for whose security context, which may be nil, bad is true.
func containersWhere(spec *corev1.PodSpec, bad func(*corev1.SecurityContext) bool) []string {
	var names []string
	for _, c := range podspec.Containers(spec) {
		if bad(c.SecurityContext) {
			names = append(names, c.Name)
		}
	}
	return names
}

// privileged forbids privileged containers.
func privileged(_ *metav1.ObjectMeta, spec *corev1.PodSpec) *Violation {
	by := containersWhere(spec, func(s *corev1.SecurityContext) bool { return s != nil && isTrue(s.Privileged) })
	if len(by) == 0 {
		return nil
	}
	return &Violation{"privileged", named("container", by) + " must not set securityContext.privileged=true"}
}

// privilegeEscalation requires that no process gets more privileges than its parent.
func privilegeEscalation(_ *metav1.ObjectMeta, spec *corev1.PodSpec) *Violation {
	by := containersWhere(spec, func(s *corev1.SecurityContext) bool { return s == nil || !isFalse(s.AllowPrivilegeEscalation) })
	if len(by) == 0 {
		return nil
	}
	return &Violation{"allowPrivilegeEscalation != false", named("container", by) + " must set securityContext.allowPrivilegeEscalation=false"}
}

// defaultCapabilities lists the capabilities that runtimes give to containers by default.
var defaultCapabilities = []corev1.Capability{
	"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "SETFCAP", "SETGID",
	"SETPCAP", "SETUID", "SYS_CHROOT",
}

// added returns the containers that add capabilities that are not allowed, and these capabilities.
func added(spec *corev1.PodSpec, allowed []corev1.Capability) (containers, capabilities []string) {
	for _, c := range podspec.Containers(spec) {
		if c.SecurityContext == nil || c.SecurityContext.Capabilities == nil {
			continue
		}
		before := len(capabilities)
		for _, one := range c.SecurityContext.Capabilities.Add {
			if !slices.Contains(allowed, one) {
				capabilities = append(capabilities, string(one))
			}
		}
		if len(capabilities) > before {
			containers = append(containers, c.Name)
		}
	}
	return containers, unique(capabilities)
}

func mustNotAdd(containers, capabilities []string) string {
	return named("container", containers) + " must not include " + quoted(capabilities) + " in securityContext.capabilities.add"
}

// addedCapabilities forbids to add other than the default capabilities.
func addedCapabilities(_ *metav1.ObjectMeta, spec *corev1.PodSpec) *Violation {
	containers, capabilities := added(spec, defaultCapabilities)
	if len(containers) == 0 {
		return nil
	}
	return &Violation{"non-default capabilities", mustNotAdd(containers, capabilities)}
}

var bindService = []corev1.Capability{"NET_BIND_SERVICE"}

// droppedCapabilities requires to drop all capabilities, of which only the one to bind low ports may be added.
func droppedCapabilities(_ *metav1.ObjectMeta, spec *corev1.PodSpec) *Violation {
	var details []string
	keep := containersWhere(spec, func(s *corev1.SecurityContext) bool {
		return s == nil || s.Capabilities == nil || !slices.Contains(s.Capabilities.Drop, "ALL")
	})
	if len(keep) > 0 {
		details = append(details, named("container", keep)+` must set securityContext.capabilities.drop=["ALL"]`)
	}
	if containers, capabilities := added(spec, bindService); len(containers) > 0 {
		details = append(details, mustNotAdd(containers, capabilities))
	}
	if len(details) == 0 {
		return nil
	}
	return &Violation{"unrestricted capabilities", strings.Join(details, "; ")}
}

// procMount forbids to unmask /proc.
func procMount(_ *metav1.ObjectMeta, spec *corev1.PodSpec) *Violation {
	var types []string
	by := containersWhere(spec, func(s *corev1.SecurityContext) bool {
		bad := s != nil && s.ProcMount != nil && *s.ProcMount != corev1.DefaultProcMount
		if bad {
			types = append(types, string(*s.ProcMount))
		}
		return bad
	})
	if len(by) == 0 {
		return nil
	}
	return &Violation{"procMount", named("container", by) + " must not set securityContext.procMount to " + quoted(unique(types))}
}

// nonRoot requires that the pod or each of its containers excludes the user root.
func nonRoot(_ *metav1.ObjectMeta, spec *corev1.PodSpec) *Violation {
	const reason = "runAsNonRoot != true"
	var byPod *bool
	if spec.SecurityContext != nil {
		byPod = spec.SecurityContext.RunAsNonRoot
	}
	by := setters{pod: isFalse(byPod)}
	by.containers = containersWhere(spec, func(s *corev1.SecurityContext) bool { return s != nil && isFalse(s.RunAsNonRoot) })
	if !by.none() {
		return &Violation{reason, by.String() + " must not set securityContext.runAsNonRoot=false"}
	}
	if isTrue(byPod) {
		return nil
	}
	silent := containersWhere(spec, func(s *corev1.SecurityContext) bool { return s == nil || s.RunAsNonRoot == nil })
	if len(silent) == 0 {
		return nil
	}
	return &Violation{reason, "pod or " + named("container", silent) + " must set securityContext.runAsNonRoot=true"}
}

// rootUser forbids to run as user 0.
func rootUser(_ *metav1.ObjectMeta, spec *corev1.PodSpec) *Violation {
	root := func(user *int64) bool { return user != nil && *user == 0 }
	by := setters{pod: spec.SecurityContext != nil && root(spec.SecurityContext.RunAsUser)}
	by.containers = containersWhere(spec, func(s *corev1.SecurityContext) bool { return s != nil && root(s.RunAsUser) })
	if by.none() {
		return nil
	}
	return &Violation{"runAsUser=0", by.String() + " must not set runAsUser=0"}
}
