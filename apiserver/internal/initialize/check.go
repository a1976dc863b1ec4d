package initialize

import (
	"slices"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

var path = field.NewPath("metadata", "initializers")

// CheckNew checks the state that the creator of an object has chosen.
func CheckNew(state *State) (errs field.ErrorList) {
	if state == nil {
		return nil
	}
	if state.Result != nil {
		errs = append(errs, field.Forbidden(path.Child("result"), "may only be set by an initializer"))
	}
	seen := sets.New[string]()
	for i, one := range state.Pending {
		at := path.Child("pending").Index(i).Child("name")
		for _, message := range validation.IsQualifiedName(one.Name) {
			errs = append(errs, field.Invalid(at, one.Name, message))
		}
		if seen.Has(one.Name) {
			errs = append(errs, field.Duplicate(at, one.Name))
		}
		seen.Insert(one.Name)
	}
	return errs
}

// CheckNext checks a step from was to next: the first initializer has acted, or failed, or has
// changed the object and is not done. No step follows a result.
func CheckNext(was, next *State) field.ErrorList {
	if was == nil {
		return field.ErrorList{field.Invalid(path, nil, "field is immutable once initialization has completed")}
	}
	if next == nil {
		next = &State{}
	}
	var errs field.ErrorList
	result := path.Child("result")
	switch {
	case was.Result != nil && !equality.Semantic.DeepEqual(was.Result, next.Result):
		errs = append(errs, field.Invalid(result, "", "field is immutable"))
	case next.Result != nil && next.Result.Status != metav1.StatusFailure:
		errs = append(errs, field.Invalid(result.Child("status"), next.Result.Status, "status must be 'Failure'"))
	case next.Result != nil && next.Result.Code != 0 && (next.Result.Code < 400 || next.Result.Code > 599):
		errs = append(errs, field.Invalid(result.Child("code"), next.Result.Code, "must be that of an HTTP error"))
	}
	if !slices.Equal(next.Pending, was.Pending) && (len(was.Pending) == 0 || !slices.Equal(next.Pending, was.Pending[1:])) {
		errs = append(errs, field.Invalid(path.Child("pending"), next.Names(), "only the first pending initializer may be removed"))
	}
	return errs
}
