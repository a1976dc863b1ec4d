package kube

import (
	"slices"
	"strings"

	"github.com/planekit/planekit/apiserver"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

func namespaces() apiserver.Resource {
	r := apiserver.Resource{
		Version:    "v1",
		Kind:       "Namespace",
		Plural:     "namespaces",
		ShortNames: []string{"ns"},
		// A namespace is emptied one by one, not in a collection.
		Verbs:   []string{"create", "delete", "get", "list", "patch", "update", "watch"},
		New:     func() runtime.Object { return &corev1.Namespace{} },
		NewList: func() runtime.Object { return &corev1.NamespaceList{} },
		Strategy: strategy[*corev1.Namespace]{
			complete: completeNamespace,
			create:   createNamespace,
			update: func(ns, old *corev1.Namespace) {
				ns.Spec.Finalizers = slices.Clone(old.Spec.Finalizers)
				old.Status.DeepCopyInto(&ns.Status)
			},
			validate:       validateNamespace,
			validateUpdate: func(ns, _ *corev1.Namespace) field.ErrorList { return validateNamespace(ns) },
		}.erase(),
		Columns: []apiserver.Column{
			text("Status", "The status of the namespace", func(ns *corev1.Namespace) string { return string(ns.Status.Phase) }),
			age[*corev1.Namespace](),
		},
		Fields: selectable[*corev1.Namespace]{
			"status.phase": func(ns *corev1.Namespace) string { return string(ns.Status.Phase) },
		}.erase(),
		Resets: []string{"status", "spec.finalizers"},
		Subresources: []apiserver.Subresource{
			status(strategy[*corev1.Namespace]{
				update:         func(ns, old *corev1.Namespace) { old.Spec.DeepCopyInto(&ns.Spec) },
				validateUpdate: func(ns, _ *corev1.Namespace) field.ErrorList { return validateNamespacePhase(ns) },
			}),
			apiserver.Status{
				Name:   "finalize",
				Verbs:  []string{"update"},
				Resets: []string{"status"},
				Strategy: strategy[*corev1.Namespace]{
					update:         func(ns, old *corev1.Namespace) { old.Status.DeepCopyInto(&ns.Status) },
					validateUpdate: func(ns, _ *corev1.Namespace) field.ErrorList { return validateNamespace(ns) },
				}.erase(),
			},
		},
	}
	r.Strategy.ValidateName = apivalidation.NameIsDNSLabel
	r.Strategy.Finalizing = func(obj runtime.Object) bool {
		return len(obj.(*corev1.Namespace).Spec.Finalizers) > 0
	}
	r.Strategy.PrepareForDelete = func(obj runtime.Object) {
		obj.(*corev1.Namespace).Status.Phase = corev1.NamespaceTerminating
	}
	return r
}

// completeNamespace labels a namespace with its name, so that selectors can
// name it. With generateName the name is not known yet; the label then comes
// with createNamespace or with the next decode.
func completeNamespace(ns *corev1.Namespace) {
	if ns.Name != "" {
		metav1.SetMetaDataLabel(&ns.ObjectMeta, corev1.LabelMetadataName, ns.Name)
	}
	setIfEmpty(&ns.Status.Phase, corev1.NamespaceActive)
}

// createNamespace adds the finalizer that keeps a deleted namespace until it has
// been emptied.
func createNamespace(ns *corev1.Namespace) {
	completeNamespace(ns)
	ns.Status = corev1.NamespaceStatus{Phase: corev1.NamespaceActive}
	if !slices.Contains(ns.Spec.Finalizers, corev1.FinalizerKubernetes) {
		ns.Spec.Finalizers = append(ns.Spec.Finalizers, corev1.FinalizerKubernetes)
	}
}

// plainFinalizers are the finalizers that need no domain.
var plainFinalizers = []string{string(corev1.FinalizerKubernetes), metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents}

func validateNamespace(ns *corev1.Namespace) field.ErrorList {
	var ps problems
	p := field.NewPath("spec", "finalizers")
	for _, f := range ns.Spec.Finalizers {
		name := string(f)
		ps.all(apivalidation.ValidateFinalizerName(name, p))
		ps.valid(strings.Contains(name, "/") || slices.Contains(plainFinalizers, name),
			p, name, "name is neither a standard finalizer name nor is it fully qualified")
	}
	return ps.list
}

func validateNamespacePhase(ns *corev1.Namespace) field.ErrorList {
	var ps problems
	p := field.NewPath("status", "Phase")
	if ns.DeletionTimestamp.IsZero() {
		ps.valid(ns.Status.Phase == corev1.NamespaceActive,
			p, ns.Status.Phase, "may only be 'Active' if `deletionTimestamp` is empty")
	} else {
		ps.valid(ns.Status.Phase == corev1.NamespaceTerminating,
			p, ns.Status.Phase, "may only be 'Terminating' if `deletionTimestamp` is not empty")
	}
	return ps.list
}
