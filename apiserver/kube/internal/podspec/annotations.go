package podspec

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Before v1.19, seccomp profiles were in annotations, and tolerations before v1.6. They have no effect, but must be right.
const (
	seccompOfPod  = corev1.SeccompPodAnnotationKey
	seccompOf     = corev1.SeccompContainerAnnotationKeyPrefix // and the name of a container
	dockerDefault = "docker/default"
	tolerations   = "scheduler.alpha.kubernetes.io/tolerations"
)

// CheckAnnotations checks the annotations, at p, of a pod or a template that stand for fields.
func CheckAnnotations(ps *check.Problems, p *field.Path, annotations map[string]string, spec *corev1.PodSpec) {
	if value, mirror := annotations[corev1.MirrorPodAnnotationKey]; mirror {
		ps.Valid(spec.NodeName != "", p.Key(corev1.MirrorPodAnnotationKey), value, "must set spec.nodeName if mirror pod annotation is set")
	}
	if text := annotations[tolerations]; text != "" {
		var list []corev1.Toleration
		if err := json.Unmarshal([]byte(text), &list); err != nil {
			ps.Add(field.Invalid(p, tolerations, err.Error()))
		}
		CheckTolerations(ps, p.Child(tolerations), list)
	}
	if cost, has := annotations[corev1.PodDeletionCost]; has {
		n, err := strconv.ParseInt(cost, 10, 32)
		ps.Valid(err == nil && strconv.FormatInt(n, 10) == cost || cost == "-0", p.Key(corev1.PodDeletionCost), cost, "must be a 32bit integer")
	}
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if key == seccompOfPod || strings.HasPrefix(key, seccompOf) {
			checkSeccompText(ps, p.Child(key), annotations[key])
		}
	}
	CheckProfiles(ps, p, annotations, spec)
}

func checkSeccompText(ps *check.Problems, p *field.Path, text string) {
	if file, local := strings.CutPrefix(text, localhost); local {
		checkDescending(ps, p, file)
		return
	}
	ps.Valid(text == runtimeDefault || text == dockerDefault || text == unconfined, p, text, "must be a valid seccomp profile")
}

// CheckAnnotationsMatch checks that the fields of spec, which is at p, say what the annotations of a new pod or a template say.
func CheckAnnotationsMatch(ps *check.Problems, p *field.Path, annotations map[string]string, spec *corev1.PodSpec) {
	if sc := spec.SecurityContext; sc != nil {
		checkSeccompMatches(ps, p.Child("securityContext", "seccompProfile"), annotations, seccompOfPod, sc.SeccompProfile)
	}
	eachContainer(p, spec, func(p *field.Path, c *corev1.Container) {
		if sc := c.SecurityContext; sc != nil {
			checkSeccompMatches(ps, p.Child("securityContext", "seccompProfile"), annotations, seccompOf+c.Name, sc.SeccompProfile)
		}
	})
	CheckProfilesMatch(ps, p, annotations, spec)
}

func checkSeccompMatches(ps *check.Problems, p *field.Path, annotations map[string]string, key string, profile *corev1.SeccompProfile) {
	text, has := annotations[key]
	if profile == nil || !has {
		return
	}
	const same = "seccomp type in annotation and field must match"
	switch profile.Type {
	case corev1.SeccompProfileTypeUnconfined:
		ps.Allowed(text == unconfined, p.Child("type"), same)
	case corev1.SeccompProfileTypeRuntimeDefault:
		ps.Allowed(text == runtimeDefault || text == dockerDefault, p.Child("type"), same)
	case corev1.SeccompProfileTypeLocalhost:
		file, local := strings.CutPrefix(text, localhost)
		if ps.Allowed(local, p.Child("type"), same); local {
			ps.Allowed(profile.LocalhostProfile != nil && file == optional.Deref(profile.LocalhostProfile),
				p.Child("localhostProfile"), "seccomp profile in annotation and field must match")
		}
	}
}
