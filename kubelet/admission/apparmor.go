package admission

import (
	"errors"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// appArmor refuses pods whose AppArmor profiles cannot be enforced. A pod that is not pending any
// more has started with its profiles.
func (h Host) appArmor(r Request) Verdict {
	if h.OS != string(corev1.Linux) || r.Pod.Status.Phase != "" && r.Pod.Status.Phase != corev1.PodPending || !needsAppArmor(r.Pod) {
		return Verdict{}
	}
	err := h.AppArmor
	if err == nil {
		err = checkProfiles(r.Pod)
	}
	if err == nil {
		return Verdict{}
	}
	return Verdict{Reason: "AppArmor", Message: "Cannot enforce AppArmor: " + err.Error()}
}

// needsAppArmor reports whether a pod has a profile other than unconfined.
func needsAppArmor(pod *corev1.Pod) bool {
	if s := pod.Spec.SecurityContext; s != nil && s.AppArmorProfile != nil && s.AppArmorProfile.Type != corev1.AppArmorProfileTypeUnconfined {
		return true
	}
	for _, c := range contexts(pod) {
		if c.context != nil && c.context.AppArmorProfile != nil && c.context.AppArmorProfile.Type != corev1.AppArmorProfileTypeUnconfined {
			return true
		}
	}
	for key, value := range pod.Annotations {
		if strings.HasPrefix(key, corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix) && value != corev1.DeprecatedAppArmorBetaProfileNameUnconfined {
			return true
		}
	}
	return false
}

// checkProfiles refuses profiles of the host without a name.
func checkProfiles(pod *corev1.Pod) error {
	for _, c := range contexts(pod) {
		annotation, annotated := strings.CutPrefix(pod.Annotations[corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix+c.name], corev1.DeprecatedAppArmorBetaProfileNamePrefix)
		var profile *corev1.AppArmorProfile
		switch s := pod.Spec.SecurityContext; {
		case c.context != nil && c.context.AppArmorProfile != nil:
			profile = c.context.AppArmorProfile
		case annotated:
			profile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: &annotation}
		case s != nil:
			profile = s.AppArmorProfile
		}
		if profile != nil && profile.Type == corev1.AppArmorProfileTypeLocalhost &&
			(profile.LocalhostProfile == nil || strings.TrimSpace(*profile.LocalhostProfile) == "") {
			return errors.New("invalid empty AppArmor profile name")
		}
	}
	return nil
}

// containerContext is the security context of a container.
type containerContext struct {
	name    string
	context *corev1.SecurityContext
}

// contexts returns the security contexts of all containers.
func contexts(pod *corev1.Pod) []containerContext {
	var all []containerContext
	for _, list := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range list {
			all = append(all, containerContext{list[i].Name, list[i].SecurityContext})
		}
	}
	for i := range pod.Spec.EphemeralContainers {
		c := &pod.Spec.EphemeralContainers[i]
		all = append(all, containerContext{c.Name, c.SecurityContext})
	}
	return all
}
