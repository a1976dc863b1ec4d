// Package kubecel is CEL as kube-apiserver gives it to whoever writes expressions:
// the language's options, its extensions, Kubernetes' libraries
// (https://kubernetes.io/docs/reference/using-api/cel/) and the limits of what an
// expression may cost. It is that of Kubernetes 1.36.
//
// Variables, their types and the library for authorization are for those who use
// it to add.
package kubecel

import (
	"errors"
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/ext"
	"github.com/google/cel-go/interpreter"
)

// Bounds of evaluation in CEL's units, and how many steps are made between two
// looks at the context; kube-apiserver's figures.
const (
	expressionLimit = 1_000_000
	checkFrequency  = 100
)

// NewEnv returns an environment with further options.
func NewEnv(more ...cel.EnvOption) (*cel.Env, error) {
	base, err := cel.NewEnv(
		cel.HomogeneousAggregateLiterals(),
		cel.EagerlyValidateDeclarations(true),
		cel.DefaultUTCTimeZone(true),
		cel.CrossTypeNumericComparisons(true),
		cel.OptionalTypes(),
		cel.ASTValidators(
			cel.ValidateDurationLiterals(),
			cel.ValidateTimestampLiterals(),
			cel.ValidateRegexLiterals(),
			cel.ValidateHomogeneousAggregateLiterals(),
		),
		ext.Strings(ext.StringsVersion(2)),
		ext.Sets(),
		ext.TwoVarComprehensions(),
		ext.Lists(ext.ListsVersion(3)),
	)
	if err != nil {
		return nil, err
	}
	options := append([]cel.EnvOption{cel.CustomTypeProvider(&provider{base.CELTypeProvider()})}, more...)
	for _, library := range [][]cel.EnvOption{library(), urls(), addresses(), quantities(), formatting(), versions()} {
		options = append(options, library...)
	}
	return base.Extend(options...)
}

// Compile checks an expression, and says what is wrong with it in kube-apiserver's
// words. Its type is for the caller to judge.
func Compile(env *cel.Env, expression string) (*cel.Ast, error) {
	ast, issues := env.Compile(expression)
	if issues != nil && issues.Err() != nil {
		return nil, errors.New("compilation failed: " + issues.String())
	}
	return ast, nil
}

// Program makes ast ready to be evaluated any number of times, by any number of
// goroutines. An evaluation fails that costs more than a million or whose context
// ends.
func Program(env *cel.Env, ast *cel.Ast) (cel.Program, error) {
	program, err := env.Program(ast,
		cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost),
		cel.OptimizeRegex(compiledOnce("find", findIn), compiledOnce("findAll", findAllIn)),
		cel.CostLimit(expressionLimit),
		cel.CostTracking(costs{}),
		cel.CostTrackerOptions(interpreter.PresenceTestHasCost(false)),
		cel.InterruptCheckFrequency(checkFrequency),
	)
	if err != nil {
		return nil, fmt.Errorf("program instantiation failed: %w", err)
	}
	return program, nil
}
