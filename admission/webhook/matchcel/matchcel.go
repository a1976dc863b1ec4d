// Package matchcel evaluates the match conditions of webhooks: CEL expressions that select the
// requests for which a webhook is called
// (https://kubernetes.io/docs/reference/access-authn-authz/extensible-admission-controllers/#matching-requests-matchconditions).
//
//	conditions, err := matchcel.New(matchcel.Config{Authorizer: authorizer})
//	webhook.Config{Compile: conditions.Compile, ...}
//	webhook.CheckConditions(conditions.Check) // refuses what does not compile
//
// An expression has the variables object and oldObject (which may be null), request (an
// AdmissionRequest without its objects), authorizer and authorizer.requestResource, which check
// permissions:
//
//	authorizer.group('apps').resource('deployments').check('create').allowed()
//
// In addition to CEL's standard functions there are its extensions for strings, sets, lists,
// optional values and two-variable comprehensions, and Kubernetes' libraries
// (https://kubernetes.io/docs/reference/using-api/cel/) for authorization, lists, regular
// expressions, URLs, IP addresses and networks, quantities, formats and semantic versions.
//
// The cost of evaluation is bounded as in kube-apiserver: one million for an expression, and two
// and a half million for the conditions of one webhook. An authorization check costs 350,000.
// Evaluation ends with the request's context.
//
// This package is separate from package webhook so that only programs that use conditions link CEL.
package matchcel

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/internal/kubecel"
	"github.com/planekit/planekit/internal/kubecel/authorizer"
	admissionapi "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// conditionsLimit bounds the total cost of the conditions of one webhook, in CEL's units, as in
// kube-apiserver.
const conditionsLimit = 2_500_000

// Config configures a Compiler.
type Config struct {
	// Authorizer is the server's own authorizer. If nil, every check fails.
	Authorizer interface {
		Authorize(context.Context, authz.Attributes) (authz.Decision, string, error)
	}
}

// Compiler compiles expressions. It is safe for concurrent use.
type Compiler struct {
	config Config
	env    *cel.Env
}

// New returns a compiler.
func New(c Config) (*Compiler, error) {
	env, err := newEnv()
	if err != nil {
		return nil, fmt.Errorf("matchcel: %w", err)
	}
	return &Compiler{c, env}, nil
}

// condition is a compiled condition.
type condition struct {
	expression string
	program    cel.Program
}

// Check returns an error for an expression that kube-apiserver refuses in a configuration.
// The budget of ctx pays for it.
func (c *Compiler) Check(ctx context.Context, expression string) error {
	_, err := c.program(ctx, expression)
	return err
}

func (c *Compiler) program(ctx context.Context, expression string) (cel.Program, error) {
	ast, err := kubecel.Compile(ctx, c.env, expression)
	if err != nil {
		return nil, err
	}
	if !ast.OutputType().IsExactType(cel.BoolType) {
		return nil, fmt.Errorf("must evaluate to bool but got %v", ast.OutputType())
	}
	return kubecel.Program(c.env, ast)
}

// Compile returns a function that reports whether all conditions hold. If one is false, the result
// is false even if others fail.
func (c *Compiler) Compile(list []registration.MatchCondition) (func(context.Context, *admission.Request, *admissionapi.AdmissionRequest) (bool, error), error) {
	conditions := make([]condition, len(list))
	for i := range list {
		expression := strings.TrimSpace(list[i].Expression)
		program, err := c.program(context.Background(), expression)
		if err != nil {
			return nil, fmt.Errorf("match condition %q: %w", list[i].Name, err)
		}
		conditions[i] = condition{expression, program}
	}
	return func(ctx context.Context, r *admission.Request, asked *admissionapi.AdmissionRequest) (bool, error) {
		variables, err := c.variables(ctx, r, asked)
		if err != nil {
			return false, err
		}
		return evaluate(ctx, conditions, variables)
	}, nil
}

var errBudget = errors.New("validation failed due to running out of cost budget, no further validation rules will be run")

func evaluate(ctx context.Context, conditions []condition, variables map[string]any) (bool, error) {
	var failed []error
	budget := uint64(conditionsLimit)
	for _, c := range conditions {
		result, details, err := c.program.ContextEval(ctx, variables)
		if details == nil || details.ActualCost() == nil {
			return false, fmt.Errorf("runtime cost could not be calculated for expression: %v, no further expression will be run", c.expression)
		}
		if *details.ActualCost() > budget {
			return false, errBudget
		}
		budget -= *details.ActualCost()
		switch {
		case err != nil:
			failed = append(failed, fmt.Errorf("expression '%v' resulted in error: %w", c.expression, err))
		case result == types.False:
			return false, nil
		}
	}
	if len(failed) > 0 {
		return false, utilerrors.NewAggregate(failed)
	}
	return true, nil
}

// variables returns the variables of expressions for a request.
func (c *Compiler) variables(ctx context.Context, r *admission.Request, asked *admissionapi.AdmissionRequest) (map[string]any, error) {
	kind := schema.GroupVersionKind(r.Kind)
	object, err := kubecel.Object(r.Object, kind)
	if err != nil {
		return nil, fmt.Errorf("failed to prepare object variable for evaluation: %w", err)
	}
	old, err := kubecel.Object(r.OldObject, kind)
	if err != nil {
		return nil, fmt.Errorf("failed to prepare oldObject variable for evaluation: %w", err)
	}
	request, err := runtime.DefaultUnstructuredConverter.ToUnstructured(asked)
	if err != nil {
		return nil, fmt.Errorf("failed to prepare request variable for evaluation: %w", err)
	}
	u := r.User
	if u == nil {
		u = &user.Info{}
	}
	of, resource := authorizer.Of(ctx, c.config.Authorizer, u, authz.Attributes{
		Group: r.Resource.Group, Version: "*", Resource: r.Resource.Resource, Subresource: r.Subresource,
		Namespace: asked.Namespace, Name: r.Name,
	})
	return map[string]any{
		"object":                     object,
		"oldObject":                  old,
		"request":                    request,
		"authorizer":                 of,
		"authorizer.requestResource": resource,
	}, nil
}
