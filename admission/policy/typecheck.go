package policy

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/planekit/planekit/internal/budget"
	"github.com/planekit/planekit/internal/kubecel"
	"github.com/planekit/planekit/internal/kubecel/authorizer"
	"github.com/planekit/planekit/internal/kubecel/openapi"
	registration "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxTypes bounds the kinds that one rule of a policy is checked against, and maxWarnings the bytes of the warnings
// about a policy, after which no more are looked for.
const maxTypes, maxWarnings = 10, 64 << 10

// The steps that a check takes to read the document of a version, to declare a kind, and to look up a word of a rule.
const documentSteps, scopeSteps, wordSteps = 1_000_000, 500_000, 10

// Types describes kinds for a [TypeChecker]. Its methods must be safe for concurrent use.
type Types interface {
	// Kinds returns the kinds of all resources that are served.
	Kinds(ctx context.Context) (map[schema.GroupVersionResource]schema.GroupVersionKind, error)
	// Document returns the OpenAPI v3 document of a version, nil if there is none.
	Document(ctx context.Context, version schema.GroupVersion) (*openapi.Document, error)
}

// A TypeChecker compares the expressions of ValidatingAdmissionPolicies with the types of what they match, as
// kube-controller-manager does. A policy applies whatever it finds.
type TypeChecker struct {
	types Types
	base  *cel.Env
}

// NewTypeChecker returns a checker.
func NewTypeChecker(t Types) (*TypeChecker, error) {
	base, err := kubecel.NewEnv(append(authorizer.Library(),
		cel.Variable("namespaceObject", kubecel.NamespaceType), cel.Variable("request", kubecel.RequestType),
		cel.Variable("authorizer", kubecel.AuthorizerType))...)
	if err != nil {
		return nil, err
	}
	return &TypeChecker{t, base}, nil
}

// Check returns warnings about the validations of a policy, nil if there are none. It fails if types cannot be read.
// A policy may take about a second of one processor. If that is not enough, the last warning says so.
func (c *TypeChecker) Check(ctx context.Context, policy *registration.ValidatingAdmissionPolicy) ([]registration.ExpressionWarning, error) {
	ctx = budget.Attach(ctx, budget.Limits{Steps: 2 * budget.Default.Steps, Bytes: budget.Default.Bytes})
	scopes, err := c.scopes(ctx, policy)
	if err != nil {
		return nil, err
	}
	var warnings []registration.ExpressionWarning
	size := 0
	check := func(path *field.Path, expression string) {
		var found []string
		for _, s := range scopes {
			if size > maxWarnings {
				return
			}
			_, err := kubecel.Compile(ctx, s.env, expression)
			if budget.From(ctx).Err() != nil {
				break
			}
			if err != nil {
				found = append(found, fmt.Sprintf("%v: %s\n", s.kind, kubecel.Issues(err)))
				size += len(found[len(found)-1])
			}
		}
		if len(found) > 0 {
			warnings = append(warnings, registration.ExpressionWarning{FieldRef: path.String(), Warning: strings.Join(found, "\n")})
		}
	}
	path := field.NewPath("spec", "validations")
	for i, v := range policy.Spec.Validations {
		check(path.Index(i).Child("expression"), v.Expression)
		if v.MessageExpression != "" {
			check(path.Index(i).Child("messageExpression"), v.MessageExpression)
		}
	}
	if err := budget.From(ctx).Err(); err != nil {
		warnings = append(warnings, registration.ExpressionWarning{FieldRef: "spec", Warning: fmt.Sprintf("types were not checked any further: %v", err)})
	}
	return warnings, ctx.Err()
}

// typedScope is where expressions about one kind are compiled.
type typedScope struct {
	kind schema.GroupVersionKind
	env  *cel.Env
}

// scopes returns the scopes of the kinds that a policy names and that have a schema.
func (c *TypeChecker) scopes(ctx context.Context, policy *registration.ValidatingAdmissionPolicy) ([]typedScope, error) {
	kinds, err := c.kinds(ctx, policy.Spec.MatchConstraints)
	if err != nil || len(kinds) == 0 {
		return nil, err
	}
	documents := map[schema.GroupVersion]*openapi.Document{}
	var params []openapi.Variable
	if k := policy.Spec.ParamKind; k != nil {
		of, err := c.typeOf(ctx, documents, schema.FromAPIVersionAndKind(k.APIVersion, k.Kind))
		if err != nil {
			return nil, err
		}
		params = []openapi.Variable{{Type: of, Names: []string{"params"}}}
	}
	var scopes []typedScope
	for _, kind := range kinds {
		of, err := c.typeOf(ctx, documents, kind)
		if err != nil {
			return nil, err
		}
		if of == nil || budget.From(ctx).Work(scopeSteps) != nil {
			continue
		}
		env, err := openapi.Declare(c.base, append(params, openapi.Variable{Type: of, Names: []string{"object", "oldObject"}})...)
		if err != nil {
			return nil, err
		}
		fields := map[string]*cel.Type{}
		if env, err = kubecel.DeclareObject(env, "variables", "kubernetes.variables", fields); err != nil {
			return nil, err
		}
		for _, v := range policy.Spec.Variables {
			fields[v.Name] = cel.DynType
			if ast, err := kubecel.Compile(ctx, env, v.Expression); err == nil {
				fields[v.Name] = declared(ast.OutputType())
			}
		}
		if budget.From(ctx).Err() != nil {
			break // some variables have no type
		}
		scopes = append(scopes, typedScope{kind, env})
	}
	return scopes, nil
}

// typeOf returns the type of a kind, nil if there is no schema or no budget for it. known holds the documents that
// have been read.
func (c *TypeChecker) typeOf(ctx context.Context, known map[schema.GroupVersion]*openapi.Document, kind schema.GroupVersionKind) (*openapi.Type, error) {
	doc, ok := known[kind.GroupVersion()]
	if !ok {
		if budget.From(ctx).Work(documentSteps) != nil {
			return nil, ctx.Err()
		}
		var err error
		if doc, err = c.types.Document(ctx, kind.GroupVersion()); err != nil {
			return nil, err
		}
		known[kind.GroupVersion()] = doc
	}
	if doc == nil {
		return nil, nil
	}
	of, _ := doc.Kind(kind)
	return of, nil
}

// kinds returns the kinds that rules name without wildcards, in the order of their names.
func (c *TypeChecker) kinds(ctx context.Context, match *registration.MatchResources) ([]schema.GroupVersionKind, error) {
	if match == nil || len(match.ResourceRules) == 0 {
		return nil, nil
	}
	served, err := c.types.Kinds(ctx)
	if err != nil {
		return nil, err
	}
	resources := slices.SortedFunc(maps.Keys(served), func(a, b schema.GroupVersionResource) int {
		return slices.Compare([]string{a.Group, a.Version, a.Resource}, []string{b.Group, b.Version, b.Resource})
	})
	found := map[schema.GroupVersionKind]bool{}
	for i := range match.ResourceRules {
		rule := &match.ResourceRules[i].Rule
		words := len(rule.APIGroups) + len(rule.APIVersions) + len(rule.Resources) + len(resources)
		if budget.From(ctx).Work(wordSteps*words) != nil {
			break
		}
		all := named(rule, resources)
		for _, r := range all[:min(len(all), maxTypes)] {
			found[served[r]] = true
		}
		if len(all) >= maxTypes {
			break // as in Kubernetes
		}
	}
	return slices.SortedFunc(maps.Keys(found), func(a, b schema.GroupVersionKind) int {
		return slices.Compare([]string{a.Group, a.Version, a.Kind}, []string{b.Group, b.Version, b.Kind})
	}), ctx.Err()
}

// named returns those of resources that a rule names, none if a group or version is a wildcard. An empty group means
// all groups.
func named(rule *registration.Rule, resources []schema.GroupVersionResource) []schema.GroupVersionResource {
	wild := func(s string) bool { return strings.Contains(s, "*") }
	if slices.ContainsFunc(rule.APIGroups, wild) || slices.ContainsFunc(rule.APIVersions, wild) {
		return nil
	}
	groups, versions, names := sets.New(rule.APIGroups...), sets.New(rule.APIVersions...), sets.New(rule.Resources...)
	var all []schema.GroupVersionResource
	for _, r := range resources {
		if versions.Has(r.Version) && names.Has(r.Resource) && (groups.Has("") || groups.Has(r.Group)) {
			all = append(all, r)
		}
	}
	return all
}
