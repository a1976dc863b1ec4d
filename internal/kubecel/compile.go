package kubecel

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/planekit/planekit/internal/budget"
)

// These are the steps that compiling an expression takes: for any, for each byte, for a regular expression, and for a
// node of the expression below others and in nested literals. The types of a literal in others are copied, compared
// and written as text for each of its nodes, so that 1 kB of them takes a second.
const (
	compileSteps  = 15_000
	byteSteps     = 150
	patternSteps  = 40_000
	nodeSteps     = 25
	literalsSteps = 10
)

// maxIssues bounds the text of what is wrong with an expression, in bytes. Each error shows a line of the expression.
const maxIssues = 16 << 10

// Compile checks an expression, within the budget of ctx. Its errors have the texts of kube-apiserver. The caller
// checks the type of the expression.
func Compile(ctx context.Context, env *cel.Env, expression string) (*cel.Ast, error) {
	b := budget.From(ctx)
	if err := b.Work(compileSteps + byteSteps*len(expression)); err != nil {
		return nil, err
	}
	parsed, issues := env.Parse(expression)
	if err := failure(issues, expression); err != nil {
		return nil, err
	}
	if err := b.Work(checkSteps(parsed.NativeRep().Expr())); err != nil {
		return nil, err
	}
	checked, issues := env.Check(parsed)
	if err := failure(issues, expression); err != nil {
		return nil, err
	}
	return checked, nil
}

const failed = "compilation failed: "

// Issues returns what is wrong with an expression without the words before it, from an error of Compile.
func Issues(err error) string { return strings.TrimPrefix(err.Error(), failed) }

// failure returns the error of an expression with issues. CEL shows the line of each; where that would be long, the
// first issues are listed without.
func failure(issues *cel.Issues, expression string) error {
	if issues == nil || len(issues.Errors()) == 0 {
		return nil
	}
	all, longest := issues.Errors(), 0
	for line := range strings.Lines(expression) {
		longest = max(longest, len(line))
	}
	if len(all)*(2*longest+200) <= maxIssues {
		return errors.New(failed + issues.String())
	}
	var out strings.Builder
	for i, e := range all {
		text := fmt.Sprintf("ERROR: <input>:%d:%d: %s\n", e.Location.Line(), e.Location.Column()+1, e.Message)
		if out.Len()+len(text) > maxIssues {
			fmt.Fprintf(&out, "%d more errors were truncated", len(all)-i)
			break
		}
		out.WriteString(text)
	}
	return errors.New(failed + strings.TrimSuffix(out.String(), "\n"))
}

// checkSteps estimates the steps of checking an expression.
func checkSteps(e ast.Expr) int {
	steps := 0
	var visit func(e ast.Expr, depth, literals int)
	visit = func(e ast.Expr, depth, literals int) {
		switch e.Kind() {
		case ast.ListKind, ast.MapKind, ast.StructKind:
			literals++
		}
		steps += nodeSteps*depth + literalsSteps*literals*literals
		below := func(part ast.Expr) { visit(part, depth+1, literals) }
		switch e.Kind() {
		case ast.SelectKind:
			below(e.AsSelect().Operand())
		case ast.CallKind:
			call := e.AsCall()
			switch call.FunctionName() {
			case "matches", "find", "findAll":
				steps += patternSteps
			}
			if call.IsMemberFunction() {
				below(call.Target())
			}
			everyOf(call.Args(), below)
		case ast.ListKind:
			everyOf(e.AsList().Elements(), below)
		case ast.MapKind:
			for _, entry := range e.AsMap().Entries() {
				below(entry.AsMapEntry().Key())
				below(entry.AsMapEntry().Value())
			}
		case ast.StructKind:
			for _, field := range e.AsStruct().Fields() {
				below(field.AsStructField().Value())
			}
		case ast.ComprehensionKind:
			c := e.AsComprehension()
			everyOf([]ast.Expr{c.IterRange(), c.AccuInit(), c.LoopCondition(), c.LoopStep(), c.Result()}, below)
		}
	}
	visit(e, 1, 0)
	return steps
}

func everyOf(parts []ast.Expr, do func(ast.Expr)) {
	for _, part := range parts {
		do(part)
	}
}
