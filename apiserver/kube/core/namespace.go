package core

import (
	"slices"
	"strings"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/kube/internal/check"
	"github.com/planekit/planekit/apiserver/kube/internal/column"
	"github.com/planekit/planekit/apiserver/kube/internal/define"
	"github.com/planekit/planekit/apiserver/kube/internal/optional"
	"github.com/planekit/planekit/kinds"
	corev1 "k8s.io/api/core/v1"
	apivalidation "k8s.io/apimachinery/pkg/api/validation"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// Namespaces returns the resource of the kind Namespace.
func Namespaces() apiserver.Resource {
	r := apiserver.For(kinds.Namespaces, apiserver.Resource{
		// A namespace is emptied one by one, not in a collection.
		Verbs: []string{"create", "delete", "get", "list", "patch", "update", "watch"},
		Strategy: define.Strategy[*corev1.Namespace]{
			Default: completeNamespace,
			Create:  createNamespace,
			Update: func(ns, old *corev1.Namespace) {
				ns.Spec.Finalizers = slices.Clone(old.Spec.Finalizers)
				old.Status.DeepCopyInto(&ns.Status)
			},
			Validate:       validateNamespace,
			ValidateUpdate: func(ns, _ *corev1.Namespace) field.ErrorList { return validateNamespace(ns) },
		}.Erase(),
		Columns: []apiserver.Column{
			column.Text("Status", "The status of the namespace", func(ns *corev1.Namespace) string { return string(ns.Status.Phase) }),
			column.Age[*corev1.Namespace](),
		},
		Fields: define.Fields[*corev1.Namespace]{
			"status.phase": func(ns *corev1.Namespace) string { return string(ns.Status.Phase) },
		}.Erase(),
		Resets: []string{"status", "spec.finalizers"},
		Subresources: []apiserver.Subresource{
			define.Status(define.Strategy[*corev1.Namespace]{
				Update:         func(ns, old *corev1.Namespace) { old.Spec.DeepCopyInto(&ns.Spec) },
				ValidateUpdate: func(ns, _ *corev1.Namespace) field.ErrorList { return validateNamespacePhase(ns) },
			}),
			apiserver.Status{
				Name:   "finalize",
				Verbs:  []string{"update"},
				Resets: []string{"status"},
				Strategy: define.Strategy[*corev1.Namespace]{
					Update:         func(ns, old *corev1.Namespace) { old.Status.DeepCopyInto(&ns.Status) },
					ValidateUpdate: func(ns, _ *corev1.Namespace) field.ErrorList { return validateFinalizers(ns, (*field.Path).Index) },
				}.Erase(),
			},
		},
	})
	r.Strategy.ValidateName = apivalidation.NameIsDNSLabel
	r.Strategy.Finalizing = func(obj runtime.Object) bool {
		return len(obj.(*corev1.Namespace).Spec.Finalizers) > 0
	}
	r.Strategy.PrepareForDelete = func(obj runtime.Object) {
		ns := obj.(*corev1.Namespace)
		ns.Status.Phase, ns.DeletionGracePeriodSeconds = corev1.NamespaceTerminating, nil
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
	optional.SetIfEmpty(&ns.Status.Phase, corev1.NamespaceActive)
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
	// As in Kubernetes, errors do not say which finalizer.
	return validateFinalizers(ns, func(p *field.Path, _ int) *field.Path { return p })
}

func validateFinalizers(ns *corev1.Namespace, at func(*field.Path, int) *field.Path) field.ErrorList {
	var ps check.Problems
	for i, f := range ns.Spec.Finalizers {
		p, name := at(field.NewPath("spec", "finalizers"), i), string(f)
		ps.All(apivalidation.ValidateFinalizerName(name, p))
		ps.Valid(strings.Contains(name, "/") || slices.Contains(plainFinalizers, name),
			p, name, "name is neither a standard finalizer name nor is it fully qualified")
	}
	return ps.List
}

func validateNamespacePhase(ns *corev1.Namespace) field.ErrorList {
	var ps check.Problems
	p := field.NewPath("status", "Phase")
	if ns.DeletionTimestamp.IsZero() {
		ps.Valid(ns.Status.Phase == corev1.NamespaceActive,
			p, ns.Status.Phase, "may only be 'Active' if `deletionTimestamp` is empty")
	} else {
		ps.Valid(ns.Status.Phase == corev1.NamespaceTerminating,
			p, ns.Status.Phase, "may only be 'Terminating' if `deletionTimestamp` is not empty")
	}
	return ps.List
}

// InitialNamespaces returns the namespaces every cluster begins with, complete but for
// what the server gives an object: UID and creation time.
func InitialNamespaces() []*corev1.Namespace {
	var out []*corev1.Namespace
	for _, name := range []string{
		metav1.NamespaceDefault,
		metav1.NamespaceSystem,
		metav1.NamespacePublic,
		corev1.NamespaceNodeLease,
	} {
		ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}
		completeNamespace(ns)
		createNamespace(ns)
		out = append(out, ns)
	}
	return out
}
