package crd

import (
	"errors"
	"fmt"
	"iter"
	"reflect"
	"slices"

	"github.com/planekit/planekit/internal/structural"
	"github.com/planekit/planekit/kinds/apiextensions"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// acceptNames gives d the names that it asks for and that no other definition of its group has, and the
// conditions that say so.
func acceptNames(d *definition, all iter.Seq[*definition]) {
	resources, kinds := map[string]bool{}, map[string]bool{}
	for other := range all {
		if other.Spec.Group != d.Spec.Group {
			continue
		}
		n := &other.Status.AcceptedNames
		for _, name := range append([]string{n.Plural, n.Singular}, n.ShortNames...) {
			resources[name] = true
		}
		kinds[n.Kind], kinds[n.ListKind] = true, true
	}
	delete(resources, "")
	delete(kinds, "")
	wants, has := &d.Spec.Names, d.Status.AcceptedNames
	names := &d.Status.AcceptedNames
	status, reason, message := metav1.ConditionTrue, "NoConflicts", "no conflicts found"
	refuse := func(err error, why string) { status, reason, message = metav1.ConditionFalse, why, err.Error() }
	take := func(to *string, want, have string, used map[string]bool, why string) {
		if err := free(want, have, used); err != nil {
			refuse(err, why)
			return
		}
		*to = want
	}
	take(&names.Plural, wants.Plural, has.Plural, resources, "PluralConflict")
	take(&names.Singular, wants.Singular, has.Singular, resources, "SingularConflict")
	if !reflect.DeepEqual(wants.ShortNames, has.ShortNames) {
		var errs []error
		for _, name := range wants.ShortNames {
			if !slices.Contains(has.ShortNames, name) {
				errs = append(errs, free(name, "", resources))
			}
		}
		if err := utilerrors.NewAggregate(slices.DeleteFunc(errs, func(err error) bool { return err == nil })); err != nil {
			refuse(err, "ShortNamesConflict")
		} else {
			names.ShortNames = slices.Clone(wants.ShortNames)
		}
	}
	take(&names.Kind, wants.Kind, has.Kind, kinds, "KindConflict")
	take(&names.ListKind, wants.ListKind, has.ListKind, kinds, "ListKindConflict")
	names.Categories = slices.Clone(wants.Categories)
	setCondition(d, apiextensions.NamesAccepted, status, reason, message)
	if conditionOf(d, apiextensions.Established) == nil && status != metav1.ConditionTrue {
		setCondition(d, apiextensions.Established, metav1.ConditionFalse, "NotAccepted", "not all names are accepted")
	}
}

func free(want, have string, used map[string]bool) error {
	if want == have || !used[want] {
		return nil
	}
	return fmt.Errorf("%q is already in use", want)
}

// observe sets the conditions that depend on d alone.
func observe(d *definition) {
	if protected(d.Spec.Group) {
		reason, message := approval(d)
		status := metav1.ConditionFalse
		if reason == "ApprovedAnnotation" {
			status = metav1.ConditionTrue
		}
		setCondition(d, apiextensions.PolicyConformant, status, reason, message)
	}
	if err := notStructural(d); err != nil {
		setCondition(d, apiextensions.NonStructuralSchema, metav1.ConditionTrue, "Violations", err.Error())
	} else {
		removeCondition(d, apiextensions.NonStructuralSchema)
	}
}

// notStructural returns why the schemas of d are not structural. Only a definition that was stored by another
// server can have such schemas.
func notStructural(d *definition) error {
	var all field.ErrorList
	if d.Spec.PreserveUnknownFields {
		all = append(all, field.Invalid(field.NewPath("spec", "preserveUnknownFields"), true, "must be false"))
	}
	for i, v := range d.Spec.Versions {
		schema, err := v.Schema.Schema()
		if err == nil {
			_, err = structural.Compile(paidFor, schema)
		}
		if err != nil {
			return errors.Join(fmt.Errorf("failed to check validation schema for version %s", v.Name), err)
		}
		if schema != nil {
			all = append(all, structural.Check(field.NewPath("spec", "versions").Index(i).Child("schema", "openAPIV3Schema"), schema)...)
		}
	}
	if len(all) == 0 {
		return nil
	}
	return all.ToAggregate()
}
