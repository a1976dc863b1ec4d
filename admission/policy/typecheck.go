package policy

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/planekit/planekit/internal/kubecel"
	"github.com/planekit/planekit/internal/kubecel/authorizer"
	"github.com/planekit/planekit/internal/kubecel/openapi"
	registration "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// maxTypes bounds the kinds that one rule of a policy is checked against, and maxWarnings the bytes of the warnings
// about a policy, after which no more are looked for.
const maxTypes, maxWarnings = 10, 64 << 10

// Types describes kinds for a [TypeChecker]. Its methods must be safe for concurrent use.
type Types interface {
	// Kinds returns the kinds of a resource; of any group if that is empty. No kinds are no error.
	Kinds(ctx context.Context, resource schema.GroupVersionResource) ([]schema.GroupVersionKind, error)
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
func (c *TypeChecker) Check(ctx context.Context, policy *registration.ValidatingAdmissionPolicy) ([]registration.ExpressionWarning, error) {
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
			if _, err := kubecel.Compile(ctx, s.env, expression); err != nil {
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
	return warnings, nil
}

// typedScope is where expressions about one kind are compiled.
type typedScope struct {
	kind schema.GroupVersionKind
	env  *cel.Env
}

// scopes returns the scopes of the kinds that a policy names and that have a schema.
func (c *TypeChecker) scopes(ctx context.Context, policy *registration.ValidatingAdmissionPolicy) ([]typedScope, error) {
	kinds, err := c.kinds(ctx, policy.Spec.MatchConstraints)
	if err != nil {
		return nil, err
	}
	var params []openapi.Variable
	if k := policy.Spec.ParamKind; k != nil {
		of, err := c.typeOf(ctx, schema.FromAPIVersionAndKind(k.APIVersion, k.Kind))
		if err != nil {
			return nil, err
		}
		params = []openapi.Variable{{Type: of, Names: []string{"params"}}}
	}
	var scopes []typedScope
	for _, kind := range kinds {
		of, err := c.typeOf(ctx, kind)
		if err != nil {
			return nil, err
		}
		if of == nil {
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
		scopes = append(scopes, typedScope{kind, env})
	}
	return scopes, nil
}

// typeOf returns the type of a kind, nil if there is no schema.
func (c *TypeChecker) typeOf(ctx context.Context, kind schema.GroupVersionKind) (*openapi.Type, error) {
	doc, err := c.types.Document(ctx, kind.GroupVersion())
	if err != nil || doc == nil {
		return nil, err
	}
	of, _ := doc.Kind(kind)
	return of, nil
}

// kinds returns the kinds that rules name without wildcards, in the order of their names.
func (c *TypeChecker) kinds(ctx context.Context, match *registration.MatchResources) ([]schema.GroupVersionKind, error) {
	found := map[schema.GroupVersionKind]bool{}
	sorted := func() []schema.GroupVersionKind {
		all := make([]schema.GroupVersionKind, 0, len(found))
		for kind := range found {
			all = append(all, kind)
		}
		slices.SortFunc(all, func(a, b schema.GroupVersionKind) int {
			return slices.Compare([]string{a.Group, a.Version, a.Kind}, []string{b.Group, b.Version, b.Kind})
		})
		return all
	}
	if match == nil {
		return nil, nil
	}
	for i := range match.ResourceRules {
		resources, ok := named(&match.ResourceRules[i].Rule)
		if !ok {
			continue
		}
		count := 0
		for _, resource := range resources {
			kinds, err := c.types.Kinds(ctx, resource)
			if err != nil {
				return nil, err
			}
			for _, kind := range kinds {
				found[kind] = true
				if count++; count == maxTypes {
					return sorted(), nil
				}
			}
		}
	}
	return sorted(), nil
}

// named returns the resources that a rule names, and false if a group or version is a wildcard.
func named(rule *registration.Rule) ([]schema.GroupVersionResource, bool) {
	wild := func(s string) bool { return strings.Contains(s, "*") }
	if slices.ContainsFunc(rule.APIGroups, wild) || slices.ContainsFunc(rule.APIVersions, wild) {
		return nil, false
	}
	var all []schema.GroupVersionResource
	for _, group := range slices.Sorted(slices.Values(rule.APIGroups)) {
		for _, version := range slices.Sorted(slices.Values(rule.APIVersions)) {
			for _, resource := range slices.Sorted(slices.Values(rule.Resources)) {
				if !strings.ContainsAny(resource, "*/") {
					all = append(all, schema.GroupVersionResource{Group: group, Version: version, Resource: resource})
				}
			}
		}
	}
	return all, true
}
