package core

import (
	"fmt"
	"maps"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	"github.com/planekit/planekit/internal/invalid"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// binding returns the subresource by which a scheduler assigns a pod to a node.
func binding() apiserver.Subresource {
	return apiserver.View{
		Name:    "binding",
		Verbs:   []string{"create"},
		Version: "v1",
		Kind:    "Binding",
		New:     func() runtime.Object { return &corev1.Binding{} },
		Into: func(parent, body runtime.Object) error {
			return bind(parent.(*corev1.Pod), body.(*corev1.Binding))
		},
	}
}

// bind assigns pod to the node that b names, once. A second binding is a conflict even if it names
// the same node, so that one of two schedulers learns that it lost.
func bind(pod *corev1.Pod, b *corev1.Binding) error {
	if errs := validateBinding(b); len(errs) > 0 {
		return invalid.Object(schema.GroupKind{Kind: "Binding"}, pod.Name, errs)
	}
	if err := define.Precondition(pod, b); err != nil {
		return apierrors.NewConflict(schema.GroupResource{Resource: "pods"}, pod.Name, err)
	}
	if err := checkBindable(pod); err != nil {
		return apierrors.NewConflict(schema.GroupResource{Resource: "pods/binding"}, pod.Name, err)
	}
	pod.Spec.NodeName = b.Target.Name
	pod.Status.NominatedNodeName = ""
	if pod.Annotations == nil {
		pod.Annotations = map[string]string{}
	}
	maps.Copy(pod.Annotations, b.Annotations)
	if len(b.Labels) > 0 {
		if pod.Labels == nil {
			pod.Labels = map[string]string{}
		}
		maps.Copy(pod.Labels, b.Labels)
	}
	setPodCondition(&pod.Status, corev1.PodCondition{Type: corev1.PodScheduled, Status: corev1.ConditionTrue})
	return nil
}

func validateBinding(b *corev1.Binding) field.ErrorList {
	var ps check.Problems
	if kind := b.Target.Kind; kind != "" && kind != "Node" {
		ps.Add(field.NotSupported(field.NewPath("target", "kind"), kind, []string{"Node", "<empty>"}))
	}
	ps.Required(field.NewPath("target", "name"), b.Target.Name)
	return ps.List
}

// checkBindable returns an error if pod cannot be bound now.
func checkBindable(pod *corev1.Pod) error {
	switch {
	case pod.DeletionTimestamp != nil:
		return fmt.Errorf("pod %s is being deleted, cannot be assigned to a host", pod.Name)
	case pod.Spec.NodeName != "":
		return fmt.Errorf("pod %v is already assigned to node %q", pod.Name, pod.Spec.NodeName)
	case len(pod.Spec.SchedulingGates) > 0:
		return fmt.Errorf("pod %v has non-empty .spec.schedulingGates", pod.Name)
	}
	return nil
}

// setPodCondition replaces the condition of the same type. It changes the transition time only when
// the status changes.
func setPodCondition(s *corev1.PodStatus, condition corev1.PodCondition) {
	condition.LastTransitionTime = metav1.Now()
	for i := range s.Conditions {
		old := &s.Conditions[i]
		if old.Type != condition.Type {
			continue
		}
		if old.Status == condition.Status {
			condition.LastTransitionTime = old.LastTransitionTime
		}
		*old = condition
		return
	}
	s.Conditions = append(s.Conditions, condition)
}
