package matchcel

import (
	"github.com/google/cel-go/cel"
	"github.com/planekit/planekit/internal/kubecel"
	"github.com/planekit/planekit/internal/kubecel/authorizer"
)

// newEnv returns the environment that kube-apiserver uses for match conditions.
func newEnv() (*cel.Env, error) {
	return kubecel.NewEnv(append(authorizer.Library(),
		cel.Variable("object", cel.DynType),
		cel.Variable("oldObject", cel.DynType),
		cel.Variable("request", kubecel.RequestType),
		cel.Variable("authorizer", kubecel.AuthorizerType),
		cel.Variable("authorizer.requestResource", kubecel.ResourceCheckType),
	)...)
}
