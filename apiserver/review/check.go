package review

import (
	"fmt"

	"github.com/planekit/planekit/internal/invalid"
	authorizationv1 "k8s.io/api/authorization/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// refusal is nil if there are no errors. As in Kubernetes the kind is not named:
// a review is no object that anyone knows by its kind and name.
func refusal(errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return invalid.Object(schema.GroupKind{Group: authorizationv1.GroupName}, "", errs)
}

func checkSelf(review *authorizationv1.SelfSubjectAccessReview) field.ErrorList {
	errs := checkQuestion(review.Spec.ResourceAttributes, review.Spec.NonResourceAttributes)
	errs = append(errs, checkSelectors(review.Spec.ResourceAttributes)...)
	return append(errs, checkEmpty(review.ObjectMeta, "must be empty")...)
}

func checkSubject(review *authorizationv1.SubjectAccessReview) field.ErrorList {
	return append(checkSpec(&review.Spec), checkEmpty(review.ObjectMeta, "must be empty")...)
}

func checkLocal(review *authorizationv1.LocalSubjectAccessReview) field.ErrorList {
	meta := review.ObjectMeta
	meta.Namespace = ""
	errs := checkSpec(&review.Spec)
	if len(checkEmpty(meta, "")) > 0 {
		errs = append(errs, checkEmpty(review.ObjectMeta, "must be empty except for namespace")...)
	}
	if r := review.Spec.ResourceAttributes; r != nil && r.Namespace != review.Namespace {
		errs = append(errs, field.Invalid(field.NewPath("spec.resourceAttributes.namespace"), r.Namespace, "must match metadata.namespace"))
	}
	if n := review.Spec.NonResourceAttributes; n != nil {
		errs = append(errs, field.Invalid(field.NewPath("spec.nonResourceAttributes"), shown(n), "disallowed on this kind of request"))
	}
	return errs
}

func checkSpec(spec *authorizationv1.SubjectAccessReviewSpec) field.ErrorList {
	errs := checkQuestion(spec.ResourceAttributes, spec.NonResourceAttributes)
	if spec.User == "" && len(spec.Groups) == 0 {
		errs = append(errs, field.Invalid(field.NewPath("spec", "user"), spec.User, "at least one of user or group must be specified"))
	}
	return append(errs, checkSelectors(spec.ResourceAttributes)...)
}

// checkQuestion wants exactly one question.
func checkQuestion(r *authorizationv1.ResourceAttributes, n *authorizationv1.NonResourceAttributes) field.ErrorList {
	switch {
	case r != nil && n != nil:
		return field.ErrorList{field.Invalid(field.NewPath("spec", "nonResourceAttributes"), shown(n), "cannot be specified in combination with resourceAttributes")}
	case r == nil && n == nil:
		return field.ErrorList{field.Invalid(field.NewPath("spec", "resourceAttributes"), n, "exactly one of nonResourceAttributes or resourceAttributes must be specified")}
	}
	return nil
}

// shown are attributes as Kubernetes shows them in messages.
func shown(n *authorizationv1.NonResourceAttributes) any {
	return struct{ Path, Verb string }{n.Path, n.Verb}
}

func checkEmpty(meta metav1.ObjectMeta, message string) field.ErrorList {
	bare := meta
	bare.ManagedFields = nil
	if equality.Semantic.DeepEqual(bare, metav1.ObjectMeta{}) {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("metadata"), meta, message)}
}

// checkSelectors lets operators pass that are not known: a client may be newer.
func checkSelectors(r *authorizationv1.ResourceAttributes) field.ErrorList {
	if r == nil {
		return nil
	}
	var errs field.ErrorList
	if s := r.FieldSelector; s != nil {
		path := field.NewPath("spec.resourceAttributes", "fieldSelector")
		errs = append(errs, checkForms(path, s.RawSelector, len(s.Requirements))...)
		for i, requirement := range s.Requirements {
			errs = append(errs, validation.ValidateFieldSelectorRequirement(requirement,
				validation.FieldSelectorValidationOptions{AllowUnknownOperatorInRequirement: true}, path.Child("requirements").Index(i))...)
		}
	}
	if s := r.LabelSelector; s != nil {
		path := field.NewPath("spec.resourceAttributes", "labelSelector")
		errs = append(errs, checkForms(path, s.RawSelector, len(s.Requirements))...)
		for i, requirement := range s.Requirements {
			errs = append(errs, validation.ValidateLabelSelectorRequirement(requirement,
				validation.LabelSelectorValidationOptions{AllowUnknownOperatorInRequirement: true}, path.Child("requirements").Index(i))...)
		}
	}
	return errs
}

// checkForms wants a selector in one of its two forms.
func checkForms(path *field.Path, raw string, requirements int) field.ErrorList {
	switch {
	case raw != "" && requirements > 0:
		return field.ErrorList{field.Invalid(path.Child("rawSelector"), raw, "may not specified at the same time as requirements")}
	case raw == "" && requirements == 0:
		return field.ErrorList{field.Required(path.Child("requirements"),
			fmt.Sprintf("when %s is specified, requirements or rawSelector is required", path))}
	}
	return nil
}
