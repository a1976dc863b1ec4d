package controllerset_test

import (
	"fmt"
	"testing"

	"github.com/planekit/planekit/client/typed"
	"github.com/planekit/planekit/plane/planetest"
	registration "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestTypesOfPolicies checks expressions against the types of a server. The warnings are those of
// kube-controller-manager, with which package compat/policytypes compares more of them.
func TestTypesOfPolicies(t *testing.T) {
	p := planetest.Start(t)
	policies := typed.ValidatingAdmissionPolicies(p.Client())
	for i, test := range []struct {
		expression, message, variable string
		rule                          registration.Rule
		want                          []registration.ExpressionWarning
	}{
		{expression: "object.spec.replicas > 1 && object.metadata.labels['a'] == 'b'"},
		{expression: "object.spec.replica > 1", want: []registration.ExpressionWarning{{FieldRef: "spec.validations[0].expression",
			Warning: "apps/v1, Kind=Deployment: ERROR: <input>:1:12: undefined field 'replica'\n | object.spec.replica > 1\n | ...........^\n"}}},
		{expression: "true", message: "string(object.foo)", want: []registration.ExpressionWarning{{FieldRef: "spec.validations[0].messageExpression",
			Warning: "apps/v1, Kind=Deployment: ERROR: <input>:1:14: undefined field 'foo'\n | string(object.foo)\n | .............^\n"}}},
		{expression: "variables.v == 'a'", variable: "object.spec.replicas", want: []registration.ExpressionWarning{{FieldRef: "spec.validations[0].expression",
			Warning: "apps/v1, Kind=Deployment: ERROR: <input>:1:13: found no matching overload for '_==_' applied to '(int, string)'\n | variables.v == 'a'\n | ............^\n"}}},
		{expression: "object.spec.template.spec.containers.all(c, c.resources.limits['cpu'] == '1' && c.ports.all(p, p.hostPort == 0))"},
		{expression: "object.nothing == 1", rule: registration.Rule{APIGroups: []string{"*"}, APIVersions: []string{"v1"}, Resources: []string{"pods"}}},
		{expression: "object.spec.nothing == 1", rule: registration.Rule{APIGroups: []string{""}, APIVersions: []string{"v1"}, Resources: []string{"pods", "services", "pods/status"}},
			want: []registration.ExpressionWarning{{FieldRef: "spec.validations[0].expression",
				Warning: "/v1, Kind=Pod: ERROR: <input>:1:12: undefined field 'nothing'\n | object.spec.nothing == 1\n | ...........^\n" + "\n" +
					"/v1, Kind=Service: ERROR: <input>:1:12: undefined field 'nothing'\n | object.spec.nothing == 1\n | ...........^\n"}}},
	} {
		if test.rule.Resources == nil {
			test.rule = registration.Rule{APIGroups: []string{"apps"}, APIVersions: []string{"v1"}, Resources: []string{"deployments"}}
		}
		policy := &registration.ValidatingAdmissionPolicy{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("p", i)}}
		policy.Spec.MatchConstraints = &registration.MatchResources{ResourceRules: []registration.NamedRuleWithOperations{{RuleWithOperations: registration.RuleWithOperations{
			Operations: []registration.OperationType{"CREATE"}, Rule: test.rule}}}}
		policy.Spec.Validations = []registration.Validation{{Expression: test.expression, MessageExpression: test.message}}
		if test.variable != "" {
			policy.Spec.Variables = []registration.Variable{{Name: "v", Expression: test.variable}}
		}
		if _, err := policies.Create(t.Context(), policy); err != nil {
			t.Fatal(err)
		}
		planetest.Eventually(t, func() error {
			got, err := policies.Get(t.Context(), "", policy.Name)
			if err != nil {
				return err
			}
			if s := got.Status; s.ObservedGeneration != 1 || s.TypeChecking == nil || fmt.Sprint(s.TypeChecking.ExpressionWarnings) != fmt.Sprint(test.want) {
				return fmt.Errorf("%s: %+v, want %q", test.expression, s.TypeChecking, test.want)
			}
			return nil
		})
	}
}
