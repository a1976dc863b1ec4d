package matchcel

import (
	"github.com/google/cel-go/cel"
	"github.com/planekit/planekit/internal/kubecel"
)

// newEnv is the environment that kube-apiserver gives match conditions.
func newEnv() (*cel.Env, error) {
	return kubecel.NewEnv(append(authorization(),
		cel.Variable("object", cel.DynType),
		cel.Variable("oldObject", cel.DynType),
		cel.Variable("request", kubecel.RequestType),
		cel.Variable("authorizer", authorizerType),
		cel.Variable("authorizer.requestResource", resourceCheckType),
	)...)
}
