package authorizer

import (
	"context"
	"errors"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/internal/kubecel"
	"github.com/planekit/planekit/internal/requirement"
	"k8s.io/apimachinery/pkg/util/validation"
)

// authorizer is the user whose permissions are checked, within the request of ctx.
type authorizer struct {
	ctx  context.Context
	asks Authorizer
	user *user.Info
}

type pathCheck struct {
	authorizer
	path string
}

type groupCheck struct {
	authorizer
	group string
}

type resourceCheck struct {
	authorizer
	attributes authz.Attributes
}

type decision struct {
	allowed bool
	reason  string
	err     error
}

var errNoAuthorizer = errors.New("there is no authorizer")

func (a authorizer) check(at authz.Attributes) ref.Val {
	if a.asks == nil {
		return kubecel.NewOpaque(kubecel.DecisionType, decision{err: errNoAuthorizer})
	}
	at.User = a.user
	d, reason, err := a.asks.Authorize(a.ctx, at)
	return kubecel.NewOpaque(kubecel.DecisionType, decision{d == authz.Allow, reason, err})
}

// reads returns an overload without arguments.
func reads[T any](f func(T) ref.Val) cel.OverloadOpt {
	return cel.UnaryBinding(func(of ref.Val) ref.Val {
		v, ok := of.Value().(T)
		if !ok {
			return types.MaybeNoSuchOverloadErr(of)
		}
		return f(v)
	})
}

// takes returns an overload with a string argument.
func takes[T any](f func(T, string) ref.Val) cel.OverloadOpt {
	return cel.BinaryBinding(func(of, argument ref.Val) ref.Val {
		v, ok := of.Value().(T)
		text, also := argument.(types.String)
		if !ok || !also {
			return types.MaybeNoSuchOverloadErr(argument)
		}
		return f(v, string(text))
	})
}

// narrows returns a function that restricts a check of a resource.
func narrows(name string, set func(at *authz.Attributes, to string)) cel.EnvOption {
	return cel.Function(name, cel.MemberOverload("resourcecheck_"+strings.ToLower(name), []*cel.Type{kubecel.ResourceCheckType, cel.StringType}, kubecel.ResourceCheckType,
		takes(func(c resourceCheck, to string) ref.Val {
			set(&c.attributes, to)
			return kubecel.NewOpaque(kubecel.ResourceCheckType, c)
		})))
}

func says(name string, t *cel.Type, f func(decision) ref.Val) cel.EnvOption {
	return cel.Function(name, cel.MemberOverload("decision_"+name, []*cel.Type{kubecel.DecisionType}, t, reads(f)))
}

// Library returns the functions of the library. The caller declares the variables.
func Library() []cel.EnvOption {
	member := func(name, overload string, of, gives *cel.Type, binding cel.OverloadOpt) cel.EnvOption {
		return cel.Function(name, cel.MemberOverload(overload, []*cel.Type{of, cel.StringType}, gives, binding))
	}
	return []cel.EnvOption{
		member("path", "authorizer_path", kubecel.AuthorizerType, kubecel.PathCheckType, takes(aboutPath)),
		member("group", "authorizer_group", kubecel.AuthorizerType, kubecel.GroupCheckType, takes(func(a authorizer, group string) ref.Val {
			return kubecel.NewOpaque(kubecel.GroupCheckType, groupCheck{a, group})
		})),
		member("resource", "groupcheck_resource", kubecel.GroupCheckType, kubecel.ResourceCheckType, takes(aboutResource)),
		cel.Function("serviceAccount", cel.MemberOverload("authorizer_serviceaccount",
			[]*cel.Type{kubecel.AuthorizerType, cel.StringType, cel.StringType}, kubecel.AuthorizerType, cel.FunctionBinding(aboutAccount))),
		narrows("subresource", func(at *authz.Attributes, to string) { at.Subresource = to }),
		narrows("namespace", func(at *authz.Attributes, to string) { at.Namespace = to }),
		narrows("name", func(at *authz.Attributes, to string) { at.Name = to }),
		// A selector that cannot be parsed does not narrow the check, which then requires more.
		narrows("fieldSelector", func(at *authz.Attributes, to string) { at.Fields, _ = requirement.Fields(to) }),
		narrows("labelSelector", func(at *authz.Attributes, to string) { at.Labels, _ = requirement.Labels(to) }),
		member("check", "pathcheck_check", kubecel.PathCheckType, kubecel.DecisionType, takes(func(c pathCheck, verb string) ref.Val {
			return c.check(authz.Attributes{Path: c.path, Verb: verb})
		})),
		member("check", "resourcecheck_check", kubecel.ResourceCheckType, kubecel.DecisionType, takes(func(c resourceCheck, verb string) ref.Val {
			c.attributes.Verb = verb
			return c.check(c.attributes)
		})),
		says("allowed", cel.BoolType, func(d decision) ref.Val { return types.Bool(d.allowed) }),
		says("reason", cel.StringType, func(d decision) ref.Val { return types.String(d.reason) }),
		says("errored", cel.BoolType, func(d decision) ref.Val { return types.Bool(d.err != nil) }),
		says("error", cel.StringType, func(d decision) ref.Val {
			if d.err == nil {
				return types.String("")
			}
			return types.String(d.err.Error())
		}),
	}
}

func aboutPath(a authorizer, path string) ref.Val {
	if strings.TrimSpace(path) == "" {
		return types.NewErr("path must not be empty")
	}
	return kubecel.NewOpaque(kubecel.PathCheckType, pathCheck{a, path})
}

func aboutResource(g groupCheck, resource string) ref.Val {
	if strings.TrimSpace(resource) == "" {
		return types.NewErr("resource must not be empty")
	}
	return kubecel.NewOpaque(kubecel.ResourceCheckType, resourceCheck{g.authorizer, authz.Attributes{Group: g.group, Version: "*", Resource: resource}})
}

func aboutAccount(arguments ...ref.Val) ref.Val {
	if len(arguments) != 3 {
		return types.NoSuchOverloadErr()
	}
	a, ok := arguments[0].Value().(authorizer)
	namespace, hasNamespace := arguments[1].(types.String)
	name, hasName := arguments[2].(types.String)
	switch {
	case !ok || !hasNamespace || !hasName:
		return types.MaybeNoSuchOverloadErr(arguments[0])
	case len(validation.IsDNS1123Subdomain(string(name))) > 0:
		return types.NewErr("Invalid service account name")
	case len(validation.IsDNS1123Label(string(namespace))) > 0:
		return types.NewErr("Invalid service account namespace")
	}
	a.user = &user.Info{
		Name:   user.ServiceAccountPrefix + string(namespace) + ":" + string(name),
		Groups: []string{user.ServiceAccounts, user.ServiceAccounts + ":" + string(namespace), user.Authenticated},
	}
	return kubecel.NewOpaque(kubecel.AuthorizerType, a)
}
