package controllers_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/planekit/planekit/reconcile/controllers/policystatus"
	registration "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// typeChecks changes a policy, about which there is one warning that names its expression.
func typeChecks(t *testing.T, _ context.Context, _ *rand.Rand) stage {
	w := newWorld()
	policies := newCollection(w.api, "ValidatingAdmissionPolicy", func() *registration.ValidatingAdmissionPolicy { return &registration.ValidatingAdmissionPolicy{} })
	p := &registration.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: "p", Generation: 1}}
	p.Spec.Validations = []registration.Validation{{Expression: "one"}}
	must[*registration.ValidatingAdmissionPolicy](t)(policies.Create(outside(), p))
	st := single(t, w.api, func(ctx context.Context, l lag) (*policystatus.Controller, error) {
		return policystatus.New(policystatus.Config{
			Policies: follow(ctx, policies, l), Writer: policies,
			Check: func(_ context.Context, p *registration.ValidatingAdmissionPolicy) ([]registration.ExpressionWarning, error) {
				return []registration.ExpressionWarning{{FieldRef: "spec", Warning: p.Spec.Validations[0].Expression}}, nil
			},
		})
	})
	for _, text := range []string{"two", "three"} {
		st.steps = append(st.steps, func() {
			policies.alter(t, "p", func(p *registration.ValidatingAdmissionPolicy) {
				p.Spec.Validations[0].Expression = text
				p.Generation++
			})
		})
	}
	st.wanted = func() {
		p := policies.list()[0]
		if s := p.Status; s.ObservedGeneration != p.Generation || s.TypeChecking == nil || fmt.Sprint(s.TypeChecking.ExpressionWarnings) != "[{spec three}]" {
			t.Errorf("generation %d, status %+v", p.Generation, s)
		}
	}
	return st
}
