package structured

import (
	"context"
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"
	"github.com/planekit/planekit/internal/kubecel"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// The variables of expressions: the token's claims and the resulting user.
const claimsName, userName = "claims", "user"

// compiler compiles expressions over either variable.
type compiler struct{ claims, user *cel.Env }

func newCompiler() (*compiler, error) {
	claims, err := kubecel.NewEnv(cel.Variable(claimsName, cel.MapType(cel.StringType, cel.AnyType)))
	if err != nil {
		return nil, fmt.Errorf("structured authentication: %w", err)
	}
	user, err := kubecel.NewEnv(cel.Variable(userName, kubecel.UserType))
	if err != nil {
		return nil, fmt.Errorf("structured authentication: %w", err)
	}
	return &compiler{claims, user}, nil
}

// expression is a compiled expression.
type expression struct {
	source  string
	ast     *cel.Ast
	program cel.Program
}

// value compiles an expression over claims, whose type is checked when it is evaluated.
func (c *compiler) value(text string, at *field.Path) (*expression, field.ErrorList) {
	return compile(c.claims, text, at)
}

// rule compiles an expression of type bool.
func (c *compiler) rule(env *cel.Env, text, message string, at *field.Path) (rule, field.ErrorList) {
	e, wrong := compile(env, text, at)
	if e != nil && !e.ast.OutputType().IsExactType(cel.BoolType) {
		wrong = field.ErrorList{field.Invalid(at, text, "must evaluate to bool")}
	}
	return rule{e, message}, wrong
}

func compile(env *cel.Env, text string, at *field.Path) (*expression, field.ErrorList) {
	checked, err := kubecel.Compile(context.Background(), env, text)
	if err != nil {
		return nil, field.ErrorList{field.Invalid(at, text, err.Error())}
	}
	program, err := kubecel.Program(env, checked)
	if err != nil {
		return nil, field.ErrorList{field.Invalid(at, text, err.Error())}
	}
	return &expression{text, checked, program}, nil
}

// selects reports whether the expression selects a claim as claims.name or claims.?name.
func (e *expression) selects(name string) bool {
	found := ast.MatchDescendants(ast.NavigateAST(e.ast.NativeRep()), func(at ast.NavigableExpr) bool {
		switch at.Kind() {
		case ast.SelectKind:
			s := at.AsSelect()
			return s.FieldName() == name && isClaims(s.Operand())
		case ast.CallKind:
			call := at.AsCall()
			if call.FunctionName() != operators.OptSelect || call.IsMemberFunction() || len(call.Args()) != 2 {
				return false
			}
			field := call.Args()[1]
			return isClaims(call.Args()[0]) && field.Kind() == ast.LiteralKind && field.AsLiteral() == types.String(name)
		}
		return false
	})
	return len(found) > 0
}

func isClaims(e ast.Expr) bool { return e.Kind() == ast.IdentKind && e.AsIdent() == claimsName }
