package authorizer_test

import (
	"context"
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/internal/kubecel"
	"github.com/planekit/planekit/internal/kubecel/authorizer"
)

func Example() {
	env, err := kubecel.NewEnv(append(authorizer.Library(), cel.Variable("authorizer", kubecel.AuthorizerType))...)
	if err != nil {
		panic(err)
	}
	ast, err := kubecel.Compile(context.Background(), env, "authorizer.group('apps').resource('deployments').namespace('web').check('create').allowed()")
	if err != nil {
		panic(err)
	}
	program, err := kubecel.Program(env, ast)
	if err != nil {
		panic(err)
	}
	server := authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
		fmt.Println(a.User.Name, a.Verb, a.Resource, a.Namespace)
		return authz.Allow, "", nil
	})
	all, _ := authorizer.Of(context.Background(), server, &user.Info{Name: "jane"}, authz.Attributes{})
	result, details, err := program.Eval(map[string]any{"authorizer": all})
	fmt.Println(result, *details.ActualCost() > 350_000, err)
	// Output:
	// jane create deployments web
	// true true <nil>
}
