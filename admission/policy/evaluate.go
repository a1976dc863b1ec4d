package policy

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
)

// These bound the costs of the conditions of a policy and of all other evaluations with one parameter, and the
// bytes of a message.
const conditionsLimit, policyLimit, maxMessage = 2_500_000, 10_000_000, 5 << 10

// maxVariables bounds the variables of which each needs the one before: a stack that overflows ends the process.
const maxVariables = 1000

var errBudget = errors.New("validation failed due to running out of cost budget, no further validation rules will be run")

// evaluation is the evaluation of a policy with one parameter.
type evaluation struct {
	ctx    context.Context
	policy *policy
	vars   map[string]any
	left   uint64 // of the limit of costs
	spent  uint64 // by the policy's variables since the last expression
	depth  int    // of variables that are being evaluated because others need them
}

// newEvaluation returns an evaluation. vars is not changed.
func newEvaluation(ctx context.Context, p *policy, vars map[string]any, param map[string]any) *evaluation {
	e := &evaluation{ctx: ctx, policy: p, vars: make(map[string]any, len(vars)+2)}
	for name, v := range vars {
		e.vars[name] = v
	}
	e.vars["params"] = nil
	if param != nil {
		e.vars["params"] = param
	}
	e.vars["variables"] = newLazy(e)
	return e
}

// evaluate evaluates an expression. The first error is that of the expression; with the second, no other one can
// be afforded.
func (e *evaluation) evaluate(x *expression) (result ref.Val, wrong, end error) {
	if x.err != nil {
		return nil, fmt.Errorf("compilation error: %w", x.err), nil
	}
	result, details, err := x.program.ContextEval(e.ctx, e.vars)
	cost, ok := costOf(details)
	if !ok {
		return nil, nil, fmt.Errorf("runtime cost could not be calculated for expression: %v, no further expression will be run", x.text)
	}
	variables := e.spent
	if e.spent = 0; variables > e.left || cost > e.left-variables {
		return nil, nil, errBudget
	}
	e.left -= variables + cost
	if err != nil {
		return nil, fmt.Errorf("expression '%v' resulted in error: %w", x.text, err), nil
	}
	return result, nil, nil
}

func costOf(details *cel.EvalDetails) (uint64, bool) {
	if details == nil || details.ActualCost() == nil {
		return 0, false
	}
	return min(*details.ActualCost(), math.MaxInt64), true
}

// matches reports whether all conditions hold. One that is false decides even if others fail.
func (e *evaluation) matches() (bool, error) {
	e.left = conditionsLimit
	var failed []error
	for i := range e.policy.conditions {
		result, wrong, end := e.evaluate(&e.policy.conditions[i])
		switch {
		case end != nil:
			return false, end
		case wrong != nil:
			failed = append(failed, wrong)
		case result == types.False:
			return false, nil
		}
	}
	if len(failed) > 0 {
		return false, utilerrors.NewAggregate(failed)
	}
	return true, nil
}

// validate returns the violations.
func (e *evaluation) validate() ([]decision, error) {
	e.left = policyLimit
	results, failures := make([]ref.Val, len(e.policy.validations)), make([]error, len(e.policy.validations))
	for i := range e.policy.validations {
		var end error
		if results[i], failures[i], end = e.evaluate(&e.policy.validations[i].holds); end != nil {
			return nil, end
		}
	}
	var all []decision
	for i := range e.policy.validations {
		v := &e.policy.validations[i]
		switch {
		case failures[i] != nil && e.policy.ignore:
		case failures[i] != nil:
			all = append(all, decision{index: i, message: failures[i].Error()})
		case results[i] != types.True:
			d := decision{index: i, message: e.message(v)}
			if v.from.Reason != nil {
				d.reason = *v.from.Reason
			}
			all = append(all, d)
		}
	}
	return all, nil
}

// message returns the message of a violation.
func (e *evaluation) message(v *validation) string {
	if v.message.text != "" {
		result, wrong, end := e.evaluate(&v.message)
		if end != nil {
			return "failed messageExpression: " + end.Error()
		}
		if wrong == nil {
			text, _ := result.Value().(string)
			if text = strings.TrimSpace(text); text != "" && len(text) <= maxMessage && !strings.Contains(text, "\n") {
				return text
			}
		}
	}
	if v.from.Message != "" {
		return strings.TrimSpace(v.from.Message)
	}
	return "failed expression: " + strings.TrimSpace(v.from.Expression)
}

// annotation returns the value of an audit annotation; empty means none.
func (e *evaluation) annotation(x *expression) (string, error) {
	e.left = policyLimit
	result, wrong, end := e.evaluate(x)
	if err := errors.Join(wrong, end); err != nil {
		return "", err
	}
	text, _ := result.Value().(string)
	return strings.TrimSpace(text), nil
}
