package core

import (
	"fmt"
	"strings"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// ephemeralContainers returns the subresource that adds containers to a pod that runs, for kubectl
// debug.
func ephemeralContainers() apiserver.Subresource {
	return apiserver.Status{Name: "ephemeralcontainers", Strategy: define.Strategy[*corev1.Pod]{
		Update:         updateEphemeralContainers,
		ValidateUpdate: validateEphemeralContainers,
	}.Erase()}
}

// updateEphemeralContainers keeps everything else of the pod.
func updateEphemeralContainers(pod, old *corev1.Pod) {
	asked := *pod
	old.DeepCopyInto(pod)
	pod.Spec.EphemeralContainers = asked.Spec.EphemeralContainers
	takeIdentity(pod, &asked)
	pod.Generation = define.NextGeneration(old.Generation, define.Differ(&pod.Spec, &old.Spec))
}

// takeIdentity copies the UID, the resourceVersion and the managedFields of asked. Validation refuses another UID.
func takeIdentity(pod, asked *corev1.Pod) {
	pod.UID, pod.ResourceVersion, pod.ManagedFields = asked.UID, asked.ResourceVersion, asked.ManagedFields
}

// validateEphemeralContainers allows containers to be added, and none to be changed or removed.
func validateEphemeralContainers(pod, old *corev1.Pod) field.ErrorList {
	var ps check.Problems
	if _, mirror := old.Annotations[corev1.MirrorPodAnnotationKey]; mirror {
		return field.ErrorList{field.Forbidden(field.NewPath(""), "static pods do not support ephemeral containers")}
	}
	checkPod(&ps, pod)
	p := field.NewPath("spec", "ephemeralContainers")
	now := map[string]*corev1.EphemeralContainer{}
	for i := range pod.Spec.EphemeralContainers {
		now[pod.Spec.EphemeralContainers[i].Name] = &pod.Spec.EphemeralContainers[i]
	}
	for i := range old.Spec.EphemeralContainers {
		before := &old.Spec.EphemeralContainers[i]
		switch c := now[before.Name]; {
		case c == nil:
			ps.Add(field.Forbidden(p, fmt.Sprintf("existing ephemeral containers %q may not be removed\n", before.Name)))
		case define.Differ(c, before):
			ps.Add(field.Forbidden(p, fmt.Sprintf("existing ephemeral containers %q may not be changed\nchanged: %s", before.Name,
				strings.Join(append(changedFields(c.EphemeralContainerCommon, before.EphemeralContainerCommon), changedTarget(c, before)...), ", "))))
		}
	}
	return ps.List
}

func changedTarget(now, old *corev1.EphemeralContainer) []string {
	if now.TargetContainerName != old.TargetContainerName {
		return []string{"targetContainerName"}
	}
	return nil
}
