package core

import (
	"context"
	"strconv"
	"strings"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	"github.com/planekit/planekit/apiserver/kube/internal/podspec"
	"github.com/planekit/planekit/kinds"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Pods returns the resource of the kind Pod.
func Pods() apiserver.Resource {
	r := apiserver.For(kinds.Pods, apiserver.Resource{
		Strategy: define.Strategy[*corev1.Pod]{
			Default:        podspec.DefaultPod,
			Create:         createPod,
			Update:         updatePod,
			Validate:       validatePod,
			ValidateUpdate: validatePodUpdate,
		}.Erase(),
		Columns: podColumns(),
		Fields:  podFields.Erase(),
		Subresources: []apiserver.Subresource{
			define.Status(define.Strategy[*corev1.Pod]{
				Update:         updatePodStatus,
				ValidateUpdate: validatePodStatus,
			}, "spec", "metadata.deletionTimestamp", "metadata.ownerReferences"),
			binding(),
			ephemeralContainers(),
			eviction(),
			resize(),
		},
	})
	r.Strategy.Grace = podGrace
	prepare := r.Strategy.PrepareForCreate
	r.Strategy.PrepareForCreate = func(ctx context.Context, obj runtime.Object) {
		for _, text := range podspec.TakeProfiles(obj.(*corev1.Pod)) {
			apiserver.Warn(ctx, text)
		}
		prepare(ctx, obj)
	}
	parts := newPodParts()
	r.Share = func(obj runtime.Object) { parts.share(obj.(*corev1.Pod)) }
	return r
}

var podFields = define.Fields[*corev1.Pod]{
	"spec.nodeName":            func(p *corev1.Pod) string { return p.Spec.NodeName },
	"spec.restartPolicy":       func(p *corev1.Pod) string { return string(p.Spec.RestartPolicy) },
	"spec.schedulerName":       func(p *corev1.Pod) string { return p.Spec.SchedulerName },
	"spec.serviceAccountName":  func(p *corev1.Pod) string { return p.Spec.ServiceAccountName },
	"spec.hostNetwork":         func(p *corev1.Pod) string { return strconv.FormatBool(p.Spec.HostNetwork) },
	"status.phase":             func(p *corev1.Pod) string { return string(p.Status.Phase) },
	"status.podIP":             func(p *corev1.Pod) string { return p.Status.PodIP },
	"status.podIPs":            func(*corev1.Pod) string { return "" }, // Kubernetes takes the selector and knows no value
	"status.nominatedNodeName": func(p *corev1.Pod) string { return p.Status.NominatedNodeName },
}

func createPod(pod *corev1.Pod) {
	pod.Generation = 1
	podspec.MergeLabelKeys(&pod.Spec, pod.Labels)
	pod.Status = corev1.PodStatus{
		Phase:    corev1.PodPending,
		QOSClass: podspec.QOSClass(&pod.Spec),
	}
	if len(pod.Spec.SchedulingGates) > 0 {
		setPodCondition(&pod.Status, corev1.PodCondition{
			Type:    corev1.PodScheduled,
			Status:  corev1.ConditionFalse,
			Reason:  corev1.PodReasonSchedulingGated,
			Message: "Scheduling is blocked due to non-empty scheduling gates",
		})
	}
}

func updatePod(pod, old *corev1.Pod) {
	old.Status.DeepCopyInto(&pod.Status)
	pod.Generation = define.NextGeneration(old.Generation, define.Differ(&pod.Spec, &old.Spec))
}

// updatePodStatus keeps the fields that a kubelet may not change.
func updatePodStatus(pod, old *corev1.Pod) {
	old.Spec.DeepCopyInto(&pod.Spec)
	pod.OwnerReferences = old.DeepCopy().OwnerReferences
	pod.DeletionTimestamp = old.DeletionTimestamp.DeepCopy()
	optional.SetIfEmpty(&pod.Status.QOSClass, old.Status.QOSClass)
	optional.SetIfEmpty(&pod.Status.ObservedGeneration, old.Status.ObservedGeneration)
	// Clients that do not know the field must not clear it.
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		for _, before := range old.Status.Conditions {
			if before.Type == c.Type {
				optional.SetIfEmpty(&c.ObservedGeneration, before.ObservedGeneration)
				break
			}
		}
	}
}

// podGrace returns the grace period of the deletion, or else that of the pod. It returns zero for a
// pod that no node has to stop.
func podGrace(obj runtime.Object, options *metav1.DeleteOptions) int64 {
	pod := obj.(*corev1.Pod)
	grace := optional.Deref(pod.Spec.TerminationGracePeriodSeconds)
	if options != nil && options.GracePeriodSeconds != nil {
		grace = *options.GracePeriodSeconds
	}
	switch {
	case pod.Spec.NodeName == "", finished(pod):
		return 0
	case grace < 0:
		return 1
	}
	return grace
}

func finished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

func validatePod(pod *corev1.Pod) field.ErrorList {
	var ps check.Problems
	p := field.NewPath("spec")
	checkPod(&ps, pod)
	podspec.CheckAnnotationsMatch(&ps, p, pod.Annotations, &pod.Spec)
	ps.Allowed(len(pod.Spec.EphemeralContainers) == 0,
		p.Child("ephemeralContainers"), "cannot be set on create")
	ps.Allowed(pod.Spec.NodeName == "" || len(pod.Spec.SchedulingGates) == 0,
		p.Child("nodeName"), "cannot be set until all schedulingGates have been cleared")
	return ps.List
}

// checkPod checks the rules that hold for pods at any time. Beyond those for templates it has rules
// that Kubernetes added too late to apply to templates.
func checkPod(ps *check.Problems, pod *corev1.Pod) {
	p := field.NewPath("spec")
	podspec.CheckAnnotations(ps, field.NewPath("metadata", "annotations"), pod.Annotations, &pod.Spec)
	podspec.Check(ps, p, &pod.Spec)
	for i := range pod.Spec.Volumes {
		v, at := &pod.Spec.Volumes[i], p.Child("volumes").Index(i)
		if v.Image != nil {
			ps.Required(at.Child("image", "reference"), v.Image.Reference)
		}
		if v.Projected == nil || pod.Spec.ServiceAccountName != "" {
			continue
		}
		for j, s := range v.Projected.Sources {
			ps.Allowed(s.ServiceAccountToken == nil, at.Child("projected", "sources").Index(j).Child("serviceAccountToken"),
				"must not be specified when serviceAccountName is not set")
		}
	}
	checkImageSpace(ps, p.Child("containers"), pod.Spec.Containers)
	checkImageSpace(ps, p.Child("initContainers"), pod.Spec.InitContainers)
	for i := range pod.Spec.EphemeralContainers {
		image := pod.Spec.EphemeralContainers[i].Image
		ps.Valid(image == strings.TrimSpace(image), p.Child("ephemeralContainers").Index(i).Child("image"), image,
			"must not have leading or trailing whitespace")
	}
}

func checkImageSpace(ps *check.Problems, p *field.Path, containers []corev1.Container) {
	for i, c := range containers {
		ps.Valid(c.Image == strings.TrimSpace(c.Image),
			p.Index(i).Child("image"), c.Image, "must not have leading or trailing whitespace")
	}
}
