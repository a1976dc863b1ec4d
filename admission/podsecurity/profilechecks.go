package podsecurity

import (
	"fmt"
	"slices"
	"strings"

	"github.com/planekit/planekit/admission/internal/podspec"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// appArmor forbids to weaken the default AppArmor profile, by fields or by the annotations that preceded them.
func appArmor(meta *metav1.ObjectMeta, spec *corev1.PodSpec) *Violation {
	var values []string
	bad := func(p *corev1.AppArmorProfile) bool {
		if p == nil || p.Type == corev1.AppArmorProfileTypeRuntimeDefault || p.Type == corev1.AppArmorProfileTypeLocalhost {
			return false
		}
		values = append(values, string(p.Type))
		return true
	}
	by := setters{pod: spec.SecurityContext != nil && bad(spec.SecurityContext.AppArmorProfile)}
	by.containers = containersWhere(spec, func(s *corev1.SecurityContext) bool { return s != nil && bad(s.AppArmorProfile) })
	var annotations []string
	for key, value := range meta.Annotations {
		if strings.HasPrefix(key, corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix) && !appArmorAnnotation(value) {
			annotations = append(annotations, fmt.Sprintf("%s=%q", key, value))
		}
	}
	if by.none() && len(annotations) == 0 {
		return nil
	}
	who := by.list()
	values = unique(values)
	if len(annotations) > 0 {
		who = append(who, plural("annotation", len(annotations)))
		values = append(values, unique(annotations)...)
	}
	return &Violation{plural("forbidden AppArmor profile", len(values)),
		strings.Join(who, " and ") + " must not set AppArmor profile type to " + quoted(values)}
}

func appArmorAnnotation(profile string) bool {
	return profile == "" || profile == corev1.DeprecatedAppArmorBetaProfileRuntimeDefault ||
		strings.HasPrefix(profile, corev1.DeprecatedAppArmorBetaProfileNamePrefix)
}

// seLinux forbids users and roles of SELinux, and all but the types of containers; more is another such type.
func seLinux(more string) examine {
	allowed := []string{"", "container_t", "container_init_t", "container_kvm_t", more}
	return func(_ *metav1.ObjectMeta, spec *corev1.PodSpec) *Violation {
		var types []string
		var user, role bool
		bad := func(o *corev1.SELinuxOptions) bool {
			if o == nil {
				return false
			}
			forbidden := !slices.Contains(allowed, o.Type)
			if forbidden {
				types = append(types, o.Type)
			}
			user, role = user || o.User != "", role || o.Role != ""
			return forbidden || o.User != "" || o.Role != ""
		}
		by := setters{pod: spec.SecurityContext != nil && bad(spec.SecurityContext.SELinuxOptions)}
		by.containers = containersWhere(spec, func(s *corev1.SecurityContext) bool { return s != nil && bad(s.SELinuxOptions) })
		if by.none() {
			return nil
		}
		var what []string
		if len(types) > 0 {
			what = append(what, named("type", unique(types)))
		}
		if user {
			what = append(what, "user may not be set")
		}
		if role {
			what = append(what, "role may not be set")
		}
		return &Violation{"seLinuxOptions", by.String() + " set forbidden securityContext.seLinuxOptions: " + strings.Join(what, "; ")}
	}
}

const seccompReason = "seccompProfile"

// The annotations that seccomp profiles had before v1.19.
const (
	podSeccomp       = "seccomp.security.alpha.kubernetes.io/pod"
	containerSeccomp = "container.seccomp.security.alpha.kubernetes.io/"
)

// seccompAnnotations forbids seccomp profiles that are neither the runtime's nor a file of the node.
func seccompAnnotations(meta *metav1.ObjectMeta, spec *corev1.PodSpec) *Violation {
	if len(meta.Annotations) == 0 {
		return nil
	}
	var forbidden []string
	examine := func(key string) {
		value, ok := meta.Annotations[key]
		if ok && value != corev1.SeccompProfileRuntimeDefault && value != corev1.DeprecatedSeccompProfileDockerDefault &&
			!strings.HasPrefix(value, corev1.SeccompLocalhostProfileNamePrefix) {
			forbidden = append(forbidden, fmt.Sprintf("%s=%q", key, value))
		}
	}
	examine(podSeccomp)
	for _, c := range podspec.Containers(spec) {
		examine(containerSeccomp + c.Name)
	}
	if len(forbidden) == 0 {
		return nil
	}
	forbidden = unique(forbidden)
	return &Violation{seccompReason, "forbidden " + plural("annotation", len(forbidden)) + " " + strings.Join(forbidden, ", ")}
}

func safeSeccomp(p *corev1.SeccompProfile) bool {
	return p.Type == corev1.SeccompProfileTypeRuntimeDefault || p.Type == corev1.SeccompProfileTypeLocalhost
}

// seccompProfile forbids seccomp profiles that are neither the runtime's nor a file of the node.
func seccompProfile(_ *metav1.ObjectMeta, spec *corev1.PodSpec) *Violation {
	var values []string
	bad := func(p *corev1.SeccompProfile) bool {
		if p == nil || safeSeccomp(p) {
			return false
		}
		values = append(values, string(p.Type))
		return true
	}
	by := setters{pod: spec.SecurityContext != nil && bad(spec.SecurityContext.SeccompProfile)}
	by.containers = containersWhere(spec, func(s *corev1.SecurityContext) bool { return s != nil && bad(s.SeccompProfile) })
	if by.none() {
		return nil
	}
	return &Violation{seccompReason, by.String() + " must not set securityContext.seccompProfile.type to " + quoted(unique(values))}
}

// requiredSeccomp also requires a profile of the pod or of each container.
func requiredSeccomp(meta *metav1.ObjectMeta, spec *corev1.PodSpec) *Violation {
	if v := seccompProfile(meta, spec); v != nil {
		return v
	}
	if spec.SecurityContext != nil && spec.SecurityContext.SeccompProfile != nil {
		return nil
	}
	silent := containersWhere(spec, func(s *corev1.SecurityContext) bool { return s == nil || s.SeccompProfile == nil })
	if len(silent) == 0 {
		return nil
	}
	return &Violation{seccompReason,
		"pod or " + named("container", silent) + ` must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost"`}
}
