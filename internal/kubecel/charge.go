package kubecel

import (
	"context"
	"errors"
	"math"
	"net/url"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/decls"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/google/cel-go/interpreter"
	"github.com/planekit/planekit/internal/budget"
	"github.com/planekit/planekit/internal/pattern"
)

// CEL's costs are kube-apiserver's, and definitions depend on them. They are far from the time that some calls take:
// the cost of an equality does not depend on what is in a list, that of a regular expression not on its program, and
// that of an evaluation not on the evaluation itself. Programs therefore charge what they do to the request's budget.
const (
	evaluationSteps = 100 // of an evaluation
	costSteps       = 3   // of a unit of CEL's costs
	valueSteps      = 5   // of each value in two that are compared
	stepBytes       = 8   // of a text that is read, for a step
)

// charged is a program that charges its evaluations.
type charged struct{ cel.Program }

// ContextEval implements [cel.Program]. Without details, the budget does not cover an evaluation.
func (c *charged) ContextEval(ctx context.Context, input any) (ref.Val, *cel.EvalDetails, error) {
	b := budget.From(ctx)
	if err := b.Work(evaluationSteps); errors.Is(err, budget.ErrExceeded) {
		return nil, nil, err
	}
	vars, err := interpreter.NewActivation(input)
	if err != nil {
		return nil, nil, err
	}
	result, details, err := c.Program.ContextEval(ctx, &paying{vars, b})
	if details != nil && details.ActualCost() != nil {
		if failed := b.Product(int(min(*details.ActualCost(), math.MaxInt32)), costSteps); failed != nil && err == nil {
			err = failed
		}
	}
	return result, details, err
}

// paying holds the variables of an evaluation, and the budget.
type paying struct {
	interpreter.Activation
	budget *budget.Budget
}

// budgetOf returns the budget of an evaluation; nil if an expression is evaluated when it is compiled.
func budgetOf(vars interpreter.Activation) *budget.Budget {
	for ; vars != nil; vars = vars.Parent() {
		if p, ok := vars.(*paying); ok {
			return p.budget
		}
	}
	return nil
}

// A chargedCall is a call that is charged before it is made.
type chargedCall struct {
	interpreter.InterpretableCall
	function string
	// foreseen returns the lowest cost of the call in CEL's units; nil if that is not known before.
	foreseen func([]ref.Val) uint64
	perform  func(*budget.Budget, []ref.Val) (ref.Val, error)
}

// Function implements [interpreter.InterpretableCall].
func (c *chargedCall) Function() string { return c.function }

// errTooDear ends an evaluation like one that has cost too much.
var errTooDear = interpreter.EvalCancelledError{Cause: interpreter.CostLimitExceeded, Message: "operation cancelled: actual cost limit exceeded"}

// ending returns how an evaluation ends whose charge fails with err.
func ending(err error) interpreter.EvalCancelledError {
	if errors.Is(err, budget.ErrExceeded) {
		return errTooDear
	}
	return interpreter.EvalCancelledError{Cause: interpreter.ContextCancelled, Message: "operation interrupted"}
}

// Eval implements [interpreter.Interpretable].
func (c *chargedCall) Eval(vars interpreter.Activation) ref.Val {
	arguments := make([]ref.Val, len(c.Args()))
	for i, a := range c.Args() {
		arguments[i] = a.Eval(vars)
	}
	for _, v := range arguments {
		if types.IsUnknownOrError(v) {
			return v
		}
	}
	if c.foreseen != nil && c.foreseen(arguments) > expressionLimit {
		panic(errTooDear)
	}
	b := budgetOf(vars)
	if b == nil {
		b = budget.From(context.Background())
	}
	if err := b.Work(stepsOf(c.InterpretableCall.Function(), arguments)); err != nil {
		panic(ending(err))
	}
	result, err := c.perform(b, arguments)
	if text, ok := result.(types.String); ok && err == nil {
		err = b.Work(len(text) / stepBytes)
	}
	if err != nil {
		panic(ending(err))
	}
	return result
}

// stepsOf returns about how many steps a call takes, beyond its costs.
func stepsOf(function string, arguments []ref.Val) int {
	read := 1
	for _, v := range arguments {
		read += bytesOf(v) / stepBytes
	}
	if len(arguments) < 2 {
		if function == "distinct" {
			read += product64(int(size(arguments[0])), values(arguments[0])*valueSteps)
		}
		return read
	}
	a, b := arguments[0], arguments[1]
	switch function {
	case "_==_", "_!=_":
		return read + valueSteps*min(values(a), values(b))
	case "@in", "_in_":
		return read + valueSteps*values(b)
	case "sets.contains", "sets.intersects", "sets.equivalent":
		return read + product64(int(size(a)), values(b)*valueSteps) + product64(int(size(b)), values(a)*valueSteps)
	case "indexOf", "lastIndexOf":
		if _, text := a.(types.String); text {
			return read + product64(bytesOf(a), bytesOf(b))/stepBytes
		}
		return read + valueSteps*values(a)
	}
	return read
}

func product64(a, b int) int { return int(min(times(uint64(a), uint64(b)), math.MaxInt32)) }

// bytesOf returns the length of the text of v, or of what v was parsed from.
func bytesOf(v ref.Val) int {
	switch v := v.(type) {
	case types.String:
		return len(v)
	case types.Bytes:
		return len(v)
	case parsed[*url.URL]:
		return len(v.value.Path) + len(v.value.RawPath) + len(v.value.RawQuery) + len(v.value.Host) + len(v.value.Fragment) + len(v.value.Opaque)
	case parsed[version]:
		return stepBytes * len(v.value.before)
	}
	return 0
}

// values returns the number of values in v, about.
func values(v ref.Val) int {
	switch v.(type) {
	case types.String, types.Int, types.Uint, types.Double, types.Bool, types.Null:
		return 1
	case traits.Lister, traits.Mapper, interface{ Value() any }:
		return count(v.Value())
	}
	return 1
}

func count(v any) int {
	n := 1
	switch v := v.(type) {
	case map[string]any:
		for _, x := range v {
			n += count(x)
		}
	case []any:
		for _, x := range v {
			n += count(x)
		}
	case []ref.Val:
		for _, x := range v {
			n += values(x)
		}
	case map[ref.Val]ref.Val:
		for key, x := range v {
			n += values(key) + values(x)
		}
	case []string:
		n += len(v)
	case map[string]string:
		n += len(v)
	}
	return n
}

// charging returns a decorator that charges the calls whose time depends on their arguments.
func charging(env *cel.Env) interpreter.InterpretableDecorator {
	return func(i interpreter.Interpretable) (interpreter.Interpretable, error) {
		call, ok := i.(interpreter.InterpretableCall)
		if !ok {
			return i, nil
		}
		out := &chargedCall{InterpretableCall: call, function: call.Function(), foreseen: foreseen[call.OverloadID()]}
		if in := searchers[call.Function()]; in != nil && len(call.Args()) >= 2 {
			compiled, err := constantPattern(call.Args()[1])
			if err != nil {
				return nil, err
			}
			if call.Function() == "matches" {
				out.function = "matches of a pattern" // so that CEL does not replace it
			}
			out.perform = func(b *budget.Budget, arguments []ref.Val) (ref.Val, error) {
				return searchIn(b, compiled, in, arguments)
			}
			return out, nil
		}
		perform, err := bindingOf(env, call)
		if perform == nil || err != nil {
			return i, err
		}
		out.perform = func(_ *budget.Budget, arguments []ref.Val) (ref.Val, error) { return perform(arguments...), nil }
		return out, nil
	}
}

// constantPattern compiles the pattern of a call if it is a constant; nil if not.
func constantPattern(argument interpreter.Interpretable) (*pattern.Pattern, error) {
	constant, ok := argument.(interpreter.InterpretableConst)
	if !ok {
		return nil, nil
	}
	text, ok := constant.Value().(types.String)
	if !ok {
		return nil, nil
	}
	return pattern.Compile(budget.From(context.Background()), string(text))
}

// bindingOf returns what performs a call; nil if its time does not depend on its arguments.
func bindingOf(env *cel.Env, call interpreter.InterpretableCall) (func(...ref.Val) ref.Val, error) {
	switch call.Function() {
	case "_==_":
		return func(arguments ...ref.Val) ref.Val { return types.Equal(arguments[0], arguments[1]) }, nil
	case "_!=_":
		return func(arguments ...ref.Val) ref.Val {
			return types.Bool(types.Equal(arguments[0], arguments[1]) != types.True)
		}, nil
	}
	function := env.Functions()[call.Function()]
	if function == nil || foreseen[call.OverloadID()] == nil && !readsValues(function.OverloadDecls(), call.OverloadID()) {
		return nil, nil
	}
	overloads, err := function.Bindings()
	if err != nil {
		return nil, err
	}
	for _, name := range []string{call.OverloadID(), call.Function()} {
		for _, o := range overloads {
			if o.Operator != name || name == "" || o.NonStrict {
				continue
			}
			var perform func(...ref.Val) ref.Val
			switch {
			case len(call.Args()) == 1 && o.Unary != nil:
				perform = func(arguments ...ref.Val) ref.Val { return o.Unary(arguments[0]) }
			case len(call.Args()) == 2 && o.Binary != nil:
				perform = func(arguments ...ref.Val) ref.Val { return o.Binary(arguments[0], arguments[1]) }
			case o.Function != nil:
				perform = o.Function
			default:
				continue
			}
			return func(arguments ...ref.Val) ref.Val {
				if o.OperandTrait != 0 && !arguments[0].Type().HasTrait(o.OperandTrait) {
					return types.NewErrWithNodeID(call.ID(), "no such overload: %s", call.Function())
				}
				return types.LabelErrNode(call.ID(), perform(arguments...))
			}, nil
		}
	}
	return nil, nil
}

// readsValues reports whether an overload takes values of any size, as far as its types tell.
func readsValues(all []*decls.OverloadDecl, overload string) bool {
	for _, o := range all {
		if overload != "" && o.ID() != overload {
			continue
		}
		for _, t := range o.ArgTypes() {
			switch t.Kind() {
			case types.BoolKind, types.IntKind, types.UintKind, types.DoubleKind, types.DurationKind, types.TimestampKind, types.NullTypeKind, types.TypeKind:
			default:
				return true
			}
		}
	}
	return false
}
