package podspec

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Until v1.30, AppArmor profiles of containers were in annotations of their pods.
const (
	profileOf      = "container.apparmor.security.beta.kubernetes.io/" // and the name of a container
	runtimeDefault = "runtime/default"
	unconfined     = "unconfined"
	localhost      = "localhost/" // and the name of a profile
)

// eachContainer calls visit for every container of spec, which is at p.
func eachContainer(p *field.Path, spec *corev1.PodSpec, visit func(p *field.Path, c *corev1.Container)) {
	for _, list := range []struct {
		name string
		of   []corev1.Container
	}{{"initContainers", spec.InitContainers}, {"containers", spec.Containers}} {
		for i := range list.of {
			visit(p.Child(list.name).Index(i), &list.of[i])
		}
	}
	for i := range spec.EphemeralContainers {
		visit(p.Child("ephemeralContainers").Index(i), (*corev1.Container)(&spec.EphemeralContainers[i].EphemeralContainerCommon))
	}
}

// onWindows reports whether a pod is for Windows, which has no profiles.
func onWindows(spec *corev1.PodSpec) bool { return spec.OS != nil && spec.OS.Name == corev1.Windows }

// profile returns what an annotation says; nil if it says nothing that is valid.
func profile(annotation string) *corev1.AppArmorProfile {
	name, local := strings.CutPrefix(annotation, localhost)
	p := &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeLocalhost, LocalhostProfile: &name}
	switch {
	case annotation == unconfined:
		p = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	case annotation == runtimeDefault:
		p = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeRuntimeDefault}
	case !local:
		return nil
	}
	var ps check.Problems
	if checkAppArmor(&ps, nil, p); len(ps.List) > 0 {
		return nil
	}
	return p
}

// profileOfPod returns the profile of containers that have none of their own; nil if there is none.
func profileOfPod(spec *corev1.PodSpec) *corev1.AppArmorProfile {
	if spec.SecurityContext == nil {
		return nil
	}
	return spec.SecurityContext.AppArmorProfile
}

// TakeProfiles sets the fields for which annotations of a new pod stand, and returns warnings about these.
func TakeProfiles(pod *corev1.Pod) (warnings []string) {
	if onWindows(&pod.Spec) {
		return nil
	}
	eachContainer(nil, &pod.Spec, func(_ *field.Path, c *corev1.Container) {
		text, has := pod.Annotations[profileOf+c.Name]
		if !has || c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil {
			return
		}
		p := profile(text)
		if p != nil && reflect.DeepEqual(p, profileOfPod(&pod.Spec)) {
			return
		}
		warnings = append(warnings, fmt.Sprintf(`metadata.annotations[%s]: deprecated since v1.30; use the "appArmorProfile" field instead`, profileOf+c.Name))
		if p != nil {
			if c.SecurityContext == nil {
				c.SecurityContext = &corev1.SecurityContext{}
			}
			c.SecurityContext.AppArmorProfile = p
		}
	})
	return warnings
}

// CheckProfiles checks the annotations, at p, with profiles of a pod's containers.
func CheckProfiles(ps *check.Problems, p *field.Path, annotations map[string]string, spec *corev1.PodSpec) {
	names := map[string]bool{}
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		name, is := strings.CutPrefix(key, profileOf)
		if !is {
			continue
		}
		if len(names) == 0 {
			eachContainer(nil, spec, func(_ *field.Path, c *corev1.Container) { names[c.Name] = true })
		}
		if !names[name] {
			ps.Add(field.Invalid(p.Key(key), name, "container not found"))
		}
		text := annotations[key]
		if text != "" && text != runtimeDefault && text != unconfined && !strings.HasPrefix(text, localhost) {
			ps.Add(field.Invalid(p.Key(key), text, fmt.Sprintf("invalid AppArmor profile name: %q", text)))
		}
	}
}

// CheckProfilesMatch checks that the fields of spec, which is at p, say what the annotations of a new pod or a template say.
func CheckProfilesMatch(ps *check.Problems, p *field.Path, annotations map[string]string, spec *corev1.PodSpec) {
	if onWindows(spec) {
		return
	}
	eachContainer(p, spec, func(p *field.Path, c *corev1.Container) {
		is := profileOfPod(spec)
		if c.SecurityContext != nil && c.SecurityContext.AppArmorProfile != nil {
			is = c.SecurityContext.AppArmorProfile
		}
		text, has := annotations[profileOf+c.Name]
		if is == nil || !has {
			return
		}
		name, local := strings.CutPrefix(text, localhost)
		p = p.Child("securityContext", "appArmorProfile")
		switch same := "apparmor type in annotation and field must match"; is.Type {
		case corev1.AppArmorProfileTypeUnconfined:
			ps.Allowed(text == unconfined, p.Child("type"), same)
		case corev1.AppArmorProfileTypeRuntimeDefault:
			ps.Allowed(text == runtimeDefault, p.Child("type"), same)
		case corev1.AppArmorProfileTypeLocalhost:
			if ps.Allowed(local, p.Child("type"), same); local {
				ps.Allowed(is.LocalhostProfile != nil && name == optional.Deref(is.LocalhostProfile), p.Child("localhostProfile"), "apparmor profile in annotation and field must match")
			}
		}
	})
}

// CheckSameAnnotations checks that the annotations of a pod, at p, that cannot change have not: those with profiles, and that of
// a static pod.
func CheckSameAnnotations(ps *check.Problems, p *field.Path, annotations, old map[string]string) {
	was, had := old[corev1.MirrorPodAnnotationKey]
	is, has := annotations[corev1.MirrorPodAnnotationKey]
	ps.Allowed(!had || has && is == was, p.Key(corev1.MirrorPodAnnotationKey), "may not remove or update mirror pod annotation")
	ps.Allowed(had || !has, p.Key(corev1.MirrorPodAnnotationKey), "may not add mirror pod annotation")
	for _, key := range slices.Sorted(maps.Keys(old)) {
		if now, has := annotations[key]; strings.HasPrefix(key, profileOf) && (!has || now != old[key]) {
			ps.Add(field.Forbidden(p.Key(key), "may not remove or update AppArmor annotations"))
		}
	}
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if _, had := old[key]; strings.HasPrefix(key, profileOf) && !had {
			ps.Add(field.Forbidden(p.Key(key), "may not add AppArmor annotations"))
		}
	}
}
