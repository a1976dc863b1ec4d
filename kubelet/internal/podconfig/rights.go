package podconfig

import (
	"errors"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// groupsPolicy returns how the groups that an image has for the user count. A runtime that always
// merges them must not run a pod that asks it not to.
func (b *Builder) groupsPolicy(s *corev1.PodSecurityContext) (runtimeapi.SupplementalGroupsPolicy, error) {
	policy := s.SupplementalGroupsPolicy
	switch {
	case policy == nil || *policy == corev1.SupplementalGroupsPolicyMerge:
		return runtimeapi.SupplementalGroupsPolicy_Merge, nil
	case *policy != corev1.SupplementalGroupsPolicyStrict:
		return 0, fmt.Errorf("unsupported supplementalGroupsPolicy: %s", *policy)
	case !b.Abilities.SupplementalGroupsPolicy():
		return 0, fmt.Errorf("SupplementalGroupsPolicy=%s is not supported in this node", *policy)
	}
	return runtimeapi.SupplementalGroupsPolicy_Strict, nil
}

func seLinux(o *corev1.SELinuxOptions) *runtimeapi.SELinuxOption {
	if o == nil {
		return nil
	}
	return &runtimeapi.SELinuxOption{User: o.User, Role: o.Role, Type: o.Type, Level: o.Level}
}

// appArmorProfile returns the AppArmor profile of a container: its own, or else that in an annotation
// of the pod, as it was before there was the field, or else the pod's.
func appArmorProfile(pod *corev1.Pod, c *corev1.Container) *corev1.AppArmorProfile {
	if s := c.SecurityContext; s != nil && s.AppArmorProfile != nil {
		return s.AppArmorProfile
	}
	old := pod.Annotations[corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix+c.Name]
	name, localhost := strings.CutPrefix(old, corev1.DeprecatedAppArmorBetaProfileNamePrefix)
	switch {
	case old == corev1.DeprecatedAppArmorBetaProfileRuntimeDefault:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}
	case old == corev1.DeprecatedAppArmorBetaProfileNameUnconfined:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	case localhost:
		return &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: &name}
	}
	if s := pod.Spec.SecurityContext; s != nil {
		return s.AppArmorProfile
	}
	return nil
}

// appArmor is nil without a profile: the runtime then applies its default if the machine has AppArmor.
func appArmor(p *corev1.AppArmorProfile) (*runtimeapi.SecurityProfile, error) {
	switch {
	case p == nil:
		return nil, nil
	case p.Type == corev1.AppArmorProfileTypeRuntimeDefault:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_RuntimeDefault}, nil
	case p.Type == corev1.AppArmorProfileTypeUnconfined:
		return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Unconfined}, nil
	case p.Type != corev1.AppArmorProfileTypeLocalhost:
		return nil, fmt.Errorf("unknown apparmor profile type: %q", p.Type)
	case p.LocalhostProfile == nil:
		return nil, errors.New("missing localhost apparmor profile name")
	}
	return &runtimeapi.SecurityProfile{ProfileType: runtimeapi.SecurityProfile_Localhost, LocalhostRef: *p.LocalhostProfile}, nil
}

// oldAppArmor returns a profile in the form that runtimes read before CRI had the type.
func oldAppArmor(p *runtimeapi.SecurityProfile) string {
	switch {
	case p == nil:
		return ""
	case p.ProfileType == runtimeapi.SecurityProfile_RuntimeDefault:
		return corev1.DeprecatedAppArmorBetaProfileRuntimeDefault
	case p.ProfileType == runtimeapi.SecurityProfile_Unconfined:
		return corev1.DeprecatedAppArmorBetaProfileNameUnconfined
	}
	return corev1.DeprecatedAppArmorBetaProfileNamePrefix + p.LocalhostRef
}
