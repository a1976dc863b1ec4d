package core

import (
	"github.com/planekit/planekit/apiserver/kube/internal/podspec"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// CompletePod sets the defaults of a pod and validates it as a create request does, for a pod that
// no API server has stored, such as a static pod.
func CompletePod(pod *corev1.Pod) error {
	podspec.DefaultPod(pod)
	errs := validation.ValidateObjectMeta(&pod.ObjectMeta, true, validation.NameIsDNSSubdomain, field.NewPath("metadata"))
	return append(errs, validatePod(pod)...).ToAggregate()
}
