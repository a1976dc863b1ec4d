package kube

import (
	"bytes"
	"reflect"
	"strconv"

	"github.com/planekit/planekit/apiserver"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

func pods() apiserver.Resource {
	r := apiserver.Resource{
		Version:    "v1",
		Kind:       "Pod",
		Plural:     "pods",
		ShortNames: []string{"po"},
		Categories: []string{"all"},
		Namespaced: true,
		New:        func() runtime.Object { return &corev1.Pod{} },
		NewList:    func() runtime.Object { return &corev1.PodList{} },
		Strategy: strategy[*corev1.Pod]{
			complete:       defaultPod,
			create:         createPod,
			update:         updatePod,
			validate:       validatePod,
			validateUpdate: validatePodUpdate,
		}.erase(),
		Columns: podColumns(),
		Fields:  podFields.erase(),
		Subresources: []apiserver.Subresource{
			status(strategy[*corev1.Pod]{
				update:         updatePodStatus,
				validateUpdate: validatePodStatus,
			}, "spec", "metadata.deletionTimestamp", "metadata.ownerReferences"),
			binding(),
			eviction(),
		},
	}
	r.Strategy.Grace = podGrace
	parts := newPodParts()
	r.Share = func(obj runtime.Object) { parts.share(obj.(*corev1.Pod)) }
	return r
}

var podFields = selectable[*corev1.Pod]{
	"spec.nodeName":            func(p *corev1.Pod) string { return p.Spec.NodeName },
	"spec.restartPolicy":       func(p *corev1.Pod) string { return string(p.Spec.RestartPolicy) },
	"spec.schedulerName":       func(p *corev1.Pod) string { return p.Spec.SchedulerName },
	"spec.serviceAccountName":  func(p *corev1.Pod) string { return p.Spec.ServiceAccountName },
	"spec.hostNetwork":         func(p *corev1.Pod) string { return strconv.FormatBool(p.Spec.HostNetwork) },
	"status.phase":             func(p *corev1.Pod) string { return string(p.Status.Phase) },
	"status.podIP":             func(p *corev1.Pod) string { return p.Status.PodIP },
	"status.nominatedNodeName": func(p *corev1.Pod) string { return p.Status.NominatedNodeName },
}

func createPod(pod *corev1.Pod) {
	pod.Generation = 1
	pod.Status = corev1.PodStatus{
		Phase:    corev1.PodPending,
		QOSClass: qosClass(&pod.Spec),
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
	pod.Generation = nextGeneration(old.Generation, differ(&pod.Spec, &old.Spec))
}

// updatePodStatus keeps what a kubelet has no say in.
func updatePodStatus(pod, old *corev1.Pod) {
	old.Spec.DeepCopyInto(&pod.Spec)
	pod.OwnerReferences = old.DeepCopy().OwnerReferences
	setIfEmpty(&pod.Status.QOSClass, old.Status.QOSClass)
	setIfEmpty(&pod.Status.ObservedGeneration, old.Status.ObservedGeneration)
	// So do clients that do not know the field yet: they must not clear it.
	for i := range pod.Status.Conditions {
		c := &pod.Status.Conditions[i]
		for _, before := range old.Status.Conditions {
			if before.Type == c.Type {
				setIfEmpty(&c.ObservedGeneration, before.ObservedGeneration)
				break
			}
		}
	}
}

// nextGeneration raises a generation when the desired state changed.
func nextGeneration(generation int64, changed bool) int64 {
	if changed {
		generation++
	}
	return generation
}

// differ compares as the API means it: nil and empty are one, quantities are
// equal by amount. Messages which are the same in bytes are equal that way too,
// which is found out in a fraction of the time.
func differ(a, b any) bool {
	if x, ok := a.(message); ok {
		if y, ok := b.(message); ok && sameBytes(x, y) {
			return false
		}
	}
	return !equality.Semantic.DeepEqual(a, b)
}

type message interface{ Marshal() ([]byte, error) }

func sameBytes(a, b message) bool {
	if reflect.ValueOf(a).IsNil() || reflect.ValueOf(b).IsNil() {
		return false
	}
	x, err1 := a.Marshal()
	y, err2 := b.Marshal()
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}

// podGrace is what the deletion asks for, else what the pod does; nothing when
// no node has to end it first.
func podGrace(obj runtime.Object, options *metav1.DeleteOptions) int64 {
	pod := obj.(*corev1.Pod)
	grace := deref(pod.Spec.TerminationGracePeriodSeconds)
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
