package apiserver

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// standardFinalizers need no domain.
var standardFinalizers = []string{"kubernetes", metav1.FinalizerOrphanDependents, metav1.FinalizerDeleteDependents}

// checkFinalizers returns the errors of finalizers that are not among before and lack the domain that the kind demands.
func (k *servedKind) checkFinalizers(finalizers, before []string) field.ErrorList {
	if !k.Strategy.QualifiedFinalizers {
		return nil
	}
	return QualifiedFinalizers(finalizers, before)
}

// QualifiedFinalizers returns the errors of finalizers that are not among before and lack a domain, but for the standard ones.
func QualifiedFinalizers(finalizers, before []string) (errs field.ErrorList) {
	for i, f := range finalizers {
		if !strings.Contains(f, "/") && !slices.Contains(standardFinalizers, f) && !slices.Contains(before, f) {
			errs = append(errs, field.Invalid(field.NewPath("metadata", "finalizers").Index(i), f, "name is neither a standard finalizer name nor is it fully qualified"))
		}
	}
	return errs
}

// warnOf tells the client what a strategy warns of.
func (q *request) warnOf(s *Strategy, obj, old runtime.Object) {
	if s.Warnings == nil {
		return
	}
	for _, text := range s.Warnings(obj, old) {
		q.warn(text)
	}
}
