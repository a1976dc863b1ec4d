package webhook

import (
	"context"
	"strings"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/internal/budget"
	"github.com/planekit/planekit/internal/invalid"
	registration "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// CheckConditions returns a validator that refuses webhook configurations with invalid match
// conditions. check checks one expression; package matchcel has one. Expressions that a
// configuration already has may stay.
func CheckConditions(check func(ctx context.Context, expression string) error) admission.Validator {
	return admission.ValidatorFunc(func(ctx context.Context, r *admission.Request) error {
		if r.Resource.Group != registration.GroupName || r.Subresource != "" {
			return nil
		}
		before := map[string]bool{}
		for _, c := range conditionsOf(r.OldObject) {
			for i := range c {
				before[c[i].Expression] = true
			}
		}
		var problems field.ErrorList
		for i, conditions := range conditionsOf(r.Object) {
			at := field.NewPath("webhooks").Index(i).Child("matchConditions")
			for j, c := range conditions {
				text := strings.TrimSpace(c.Expression)
				if text == "" || before[c.Expression] { // another check refuses an empty expression
					continue
				}
				if err := check(ctx, text); err != nil {
					problems = append(problems, field.Invalid(at.Index(j).Child("expression"), text, err.Error()))
				}
			}
		}
		if err := budget.From(ctx).Err(); err != nil {
			return err // problems are not complete
		}
		if len(problems) == 0 {
			return nil
		}
		return invalid.Object(schema.GroupKind{Group: r.Kind.Group, Kind: r.Kind.Kind}, nameOf(r), problems)
	})
}

// conditionsOf returns the conditions of each webhook in a configuration.
func conditionsOf(object any) (all [][]registration.MatchCondition) {
	switch c := object.(type) {
	case *registration.MutatingWebhookConfiguration:
		for i := range c.Webhooks {
			all = append(all, c.Webhooks[i].MatchConditions)
		}
	case *registration.ValidatingWebhookConfiguration:
		for i := range c.Webhooks {
			all = append(all, c.Webhooks[i].MatchConditions)
		}
	}
	return all
}

func nameOf(r *admission.Request) string {
	if o, ok := r.Object.(metav1.Object); ok {
		return o.GetName()
	}
	return r.Name
}
