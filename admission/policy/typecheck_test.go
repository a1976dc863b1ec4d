package policy_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/admission/policy"
	"github.com/planekit/planekit/internal/kubecel/openapi"
	"github.com/planekit/planekit/internal/used"
	registration "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// manyKinds serves 40 groups with 10 kinds each, and counts the reads.
type manyKinds struct{ kinds, documents int }

func (m *manyKinds) Kinds(context.Context) (map[schema.GroupVersionResource]schema.GroupVersionKind, error) {
	m.kinds++
	all := map[schema.GroupVersionResource]schema.GroupVersionKind{}
	for g := range 40 {
		for k := range 10 {
			gv := schema.GroupVersion{Group: fmt.Sprint("g", g), Version: "v1"}
			all[gv.WithResource(fmt.Sprint("r", k))] = gv.WithKind(fmt.Sprint("K", k))
		}
	}
	return all, nil
}

func (m *manyKinds) Document(_ context.Context, of schema.GroupVersion) (*openapi.Document, error) {
	m.documents++
	var schemas []string
	for k := range 10 {
		schemas = append(schemas, fmt.Sprintf(`"K%d":{"type":"object","x-kubernetes-group-version-kind":[{"group":%q,"version":"v1","kind":"K%d"}],"properties":{"spec":{"type":"object","properties":{"n":{"type":"integer"}}}}}`, k, of.Group, k))
	}
	return openapi.Parse([]byte(`{"components":{"schemas":{` + strings.Join(schemas, ",") + `}}}`))
}

// ruleFor names resources of a group.
func ruleFor(group string, resources ...string) registration.NamedRuleWithOperations {
	return registration.NamedRuleWithOperations{RuleWithOperations: registration.RuleWithOperations{
		Rule: registration.Rule{APIGroups: []string{group}, APIVersions: []string{"v1"}, Resources: resources},
	}}
}

func words(prefix string, n int) []string {
	var all []string
	for i := range n {
		all = append(all, fmt.Sprint(prefix, i))
	}
	return all
}

// TestTypeCheckWithinBudget: the types of a policy are checked in about a second, however many kinds, rules,
// variables and expressions it has. What is served and each document are read once.
func TestTypeCheckWithinBudget(t *testing.T) {
	var everything []registration.NamedRuleWithOperations
	for g := range 40 {
		everything = append(everything, ruleFor(fmt.Sprint("g", g), words("r", 9)...))
	}
	wide := ruleFor("", words("r", 600)...)
	wide.APIGroups, wide.APIVersions = words("g", 600), words("v", 600)
	var long []registration.NamedRuleWithOperations
	for range 3000 {
		long = append(long, ruleFor("g1", words("r", 9)...))
	}
	few, many := []registration.Validation{{Expression: "object.spec.m == 1"}}, []registration.Validation{}
	for range 500 {
		many = append(many, registration.Validation{Expression: "object.spec.n == 1 && object.spec.n < variables.v7", MessageExpression: "string(object.spec.n)"})
	}
	var variables []registration.Variable
	for i := range 100 {
		variables = append(variables, registration.Variable{Name: fmt.Sprint("v", i), Expression: "object.spec.n"})
	}
	for _, c := range []struct {
		name        string
		rules       []registration.NamedRuleWithOperations
		variables   []registration.Variable
		validations []registration.Validation
		// documents are read, and there are warnings about so many expressions; the last says that there is more if stopped.
		documents, warnings int
		stopped             bool
	}{
		{"one kind", []registration.NamedRuleWithOperations{ruleFor("g3", "r1")}, variables, few, 1, 1, false},
		{"a product of 216 million names", []registration.NamedRuleWithOperations{wide}, nil, few, 1, 1, false},
		{"rules without kinds", []registration.NamedRuleWithOperations{ruleFor("absent", words("r", 20_000)...)}, nil, few, 0, 0, false},
		{"3,000 equal rules", long, nil, few, 1, 1, false},
		{"kinds times variables times validations", everything, variables, many, 40, 1, true},
	} {
		types := &manyKinds{}
		checker, err := policy.NewTypeChecker(types)
		if err != nil {
			t.Fatal(err)
		}
		p := &registration.ValidatingAdmissionPolicy{Spec: registration.ValidatingAdmissionPolicySpec{
			MatchConstraints: &registration.MatchResources{ResourceRules: c.rules}, Variables: c.variables, Validations: c.validations,
		}}
		before := used.Processor()
		warnings, err := checker.Check(t.Context(), p)
		took := used.Processor() - before
		t.Logf("%s: %v, %d documents, %d warnings", c.name, took, types.documents, len(warnings))
		if err != nil || types.kinds > 1 || types.documents > c.documents || len(warnings) != c.warnings {
			t.Errorf("%s: Check() = %.300v, %v after %d reads of the kinds and %d of documents, want %d warnings after 1 and at most %d", c.name, warnings, err, types.kinds, types.documents, c.warnings, c.documents)
			continue
		}
		if stopped := len(warnings) > 0 && strings.Contains(warnings[len(warnings)-1].Warning, "not checked any further"); stopped != c.stopped {
			t.Errorf("%s: Check() = %.300v: the last warning says that it stopped: %v, want %v", c.name, warnings, stopped, c.stopped)
		}
		if took > 10*time.Second {
			t.Errorf("%s: Check() takes %v, want less than 10s", c.name, took)
		}
	}
}
