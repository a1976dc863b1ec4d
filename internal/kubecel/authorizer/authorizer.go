// Package authorizer lets CEL expressions check permissions: it is Kubernetes' authorization library
// (https://kubernetes.io/docs/reference/using-api/cel/#kubernetes-authorizer-library).
//
//	env, err := kubecel.NewEnv(append(authorizer.Library(), cel.Variable("authorizer", kubecel.AuthorizerType))...)
//	...
//	vars["authorizer"], vars["authorizer.requestResource"] = authorizer.Of(ctx, server, user, attributes)
//
// A check asks the server's own authorizer within the context of the request. It costs 350,000 of
// CEL's units. A check that fails denies; the expression can see the error.
package authorizer

import (
	"context"

	"github.com/google/cel-go/common/types/ref"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/internal/kubecel"
)

// An Authorizer decides about permissions.
type Authorizer interface {
	Authorize(context.Context, authz.Attributes) (authz.Decision, string, error)
}

// Of returns the value of the variable authorizer for a user, and that of a check of the request's
// resource. If asks is nil, every check fails.
func Of(ctx context.Context, asks Authorizer, u *user.Info, request authz.Attributes) (all, resource ref.Val) {
	a := authorizer{ctx: ctx, asks: asks, user: u}
	return kubecel.NewOpaque(kubecel.AuthorizerType, a), kubecel.NewOpaque(kubecel.ResourceCheckType, resourceCheck{a, request})
}
