package kubecel

import (
	"sync"

	"github.com/google/cel-go/cel"
	celast "github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/decls"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/ext"
)

// A CheckingProvider has types that only the check of an expression needs, and no program.
type CheckingProvider interface {
	types.Provider
	// Evaluating returns a provider without these types.
	Evaluating() types.Provider
}

// planner returns an environment for a program that evaluates ast, which env has checked. A program keeps the
// bindings of all functions of its environment, which would be 50 KB, and therefore gets those it calls only.
func planner(env *cel.Env, ast *cel.Ast) (*cel.Env, error) {
	base, err := special()
	if err != nil {
		return nil, err
	}
	functions, isSpecial := called(env, ast, base.Functions())
	provider := env.CELTypeProvider()
	if checking, ok := provider.(CheckingProvider); ok {
		provider = checking.Evaluating()
	}
	options := []cel.EnvOption{
		cel.CustomTypeAdapter(env.CELTypeAdapter()), cel.CustomTypeProvider(provider), cel.FunctionDecls(functions...),
	}
	if isSpecial {
		return base.Extend(options...)
	}
	return cel.NewCustomEnv(options...)
}

// special returns an environment of the libraries that have options for programs beside functions: they replace
// calls, or say what calls have cost.
var special = sync.OnceValues(func() (*cel.Env, error) {
	return cel.NewCustomEnv(cel.OptionalTypes(), ext.Sets(), ext.Lists(ext.ListsVersion(3)))
})

// called returns the functions of env that ast calls, without those that are special, and whether there are any of these.
func called(env *cel.Env, ast *cel.Ast, special map[string]*decls.FunctionDecl) (all []*decls.FunctionDecl, isSpecial bool) {
	functions, seen := env.Functions(), map[string]bool{}
	celast.PreOrderVisit(ast.NativeRep().Expr(), celast.NewExprVisitor(func(e celast.Expr) {
		if e.Kind() != celast.CallKind || seen[e.AsCall().FunctionName()] {
			return
		}
		name := e.AsCall().FunctionName()
		seen[name] = true
		f, same := functions[name], special[name]
		switch {
		case f == nil: // an operator that is no function
		case same != nil && len(same.OverloadDecls()) == len(f.OverloadDecls()):
			isSpecial = true
		default:
			all = append(all, f)
		}
	}))
	return all, isSpecial
}
