// Package kubecel provides CEL as in kube-apiserver: the language's options, its extensions,
// Kubernetes' libraries (https://kubernetes.io/docs/reference/using-api/cel/) and the limits for
// the cost of an expression. It corresponds to Kubernetes 1.36.
//
// Callers add variables, their types and the library for authorization. A call whose result would be
// too large, such as lists.range(1000000000), ends the evaluation like one that has cost too much.
package kubecel

import (
	"fmt"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/checker"
	"github.com/google/cel-go/ext"
	"github.com/google/cel-go/interpreter"
)

// These limit an evaluation in CEL's units, and set the number of steps between two checks of the
// context. The figures are kube-apiserver's.
const (
	expressionLimit = 1_000_000
	checkFrequency  = 100
)

// TimeLimit bounds the evaluations for one object. They cost far less time: see [Program].
const TimeLimit = 10 * time.Second

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
		cel.CostEstimatorOptions(checker.PresenceTestHasCost(false)),
	)
	if err != nil {
		return nil, err
	}
	options := append([]cel.EnvOption{cel.CustomTypeProvider(&provider{base.CELTypeProvider(), objects})}, more...)
	for _, library := range [][]cel.EnvOption{library(), urls(), addresses(), quantities(), formatting(), versions()} {
		options = append(options, library...)
	}
	return base.Extend(options...)
}

// Program returns a program for ast that any number of goroutines may evaluate any number of times.
// An evaluation fails if it costs more than a million, if its context ends, or if the budget of its context does
// not cover it: CEL's costs do not tell how long a call takes.
func Program(env *cel.Env, ast *cel.Ast) (cel.Program, error) {
	env, err := planner(env, ast)
	if err != nil {
		return nil, fmt.Errorf("program instantiation failed: %w", err)
	}
	program, err := env.Program(ast,
		cel.EvalOptions(cel.OptOptimize, cel.OptTrackCost),
		cel.CostLimit(expressionLimit),
		cel.CustomDecorator(charging(env)),
		cel.CostTracking(costs{}),
		cel.CostTrackerOptions(interpreter.PresenceTestHasCost(false)),
		cel.InterruptCheckFrequency(checkFrequency),
	)
	if err != nil {
		return nil, fmt.Errorf("program instantiation failed: %w", err)
	}
	return &charged{program}, nil
}
