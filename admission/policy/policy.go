// Package policy evaluates ValidatingAdmissionPolicies and MutatingAdmissionPolicies: rules and changes in CEL that are
// objects of the API (https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/ and
// .../mutating-admission-policy/). It has the two plugins of these names.
//
//	policies, err := policy.New(policy.Config{
//		Policies: policyInformer, Bindings: bindingInformer,
//		Namespaces: namespaceInformer, Lookup: getNamespace,
//		Authorizer: authorizer, Params: params,
//	})
//	go policies.Run(ctx)
//	chain := admission.Chain{Validators: []admission.Validator{..., policies, admission.ValidatorFunc(policies.Check)}}
//
// # Model
//
// A policy applies through its bindings, to requests that both match. Its expressions have the variables
// object, oldObject, request, namespaceObject, authorizer, authorizer.requestResource, params if the policy has a
// paramKind, and the policy's own variables, which are evaluated at their first use. A binding with several
// parameters is evaluated with each. Policies and bindings are read from caches and compiled once per change.
// Their order is that of their names; the first that denies a request words the answer.
//
// A [Mutator] changes objects in the same way. A change is an apply configuration, which is merged by the schema of the
// kind, or a JSON patch. Each sees the object as the one before has left it. Policies with the reinvocationPolicy IfNeeded
// see it once more after all other mutating plugins, if any has changed it (see [WithRounds]).
//
// The costs of expressions are bounded as in kube-apiserver: one million for an expression, two and a half
// million for the conditions of a policy, and ten million for its validations with one parameter, or for one change, in
// CEL's units. A change may make an object of 3 MiB at most.
// All evaluations for one request may take ten seconds.
//
// Policies do not apply to policies, bindings and webhook configurations, so that an invalid one can be deleted.
//
// # Failure
//
// An expression that fails, and a parameter that cannot be read, deny the request unless the policy's
// failurePolicy is Ignore. Requests wait up to 10 s for the caches to sync and then fail. Check refuses policies
// whose expressions do not compile.
//
// A [TypeChecker] compares the expressions of a policy with the types of what it matches. What it finds is only a
// warning.
//
// A policy with the matchPolicy Equivalent sees a request in the version that its rules name, if that is another one. One
// that cannot be converted is treated as an expression that fails.
//
// # Left out
//
// Defaults are set after all mutating plugins, not after each policy. In kube-apiserver, policies that change a request in
// different versions do not see one another's changes, and only those in the last version stay; here all do. It also
// refuses to change a built-in kind in another version.
package policy

import (
	"context"
	"errors"

	"github.com/planekit/planekit/internal/kubecel/authorizer"
	"github.com/planekit/planekit/localcache"
	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Params reads the parameters of policies, which may be of any kind. Its methods must be safe for concurrent use.
// The objects are JSON values, which are shared and not changed.
type Params interface {
	// Namespaced reports whether objects of a kind are in namespaces. It fails if there is no such kind.
	Namespaced(ctx context.Context, kind schema.GroupVersionKind) (bool, error)
	// Get returns an object, and fails with a NotFound API error if there is none.
	Get(ctx context.Context, kind schema.GroupVersionKind, namespace, name string) (map[string]any, error)
	// List returns the objects with labels. An empty namespace is that of a kind without namespaces.
	List(ctx context.Context, kind schema.GroupVersionKind, namespace string, with labels.Selector) ([]map[string]any, error)
}

// Config configures the plugin. All fields but Authorizer are required.
type Config struct {
	// Policies and Bindings are the caches of the objects.
	Policies localcache.ListSubscriber[*registration.ValidatingAdmissionPolicy]
	Bindings localcache.ListSubscriber[*registration.ValidatingAdmissionPolicyBinding]
	// Namespaces is the cache of namespaces.
	Namespaces localcache.Getter[*corev1.Namespace]
	// Lookup reads a namespace that the cache does not have from the store. It fails with a
	// NotFound API error if there is none.
	Lookup func(ctx context.Context, name string) (*corev1.Namespace, error)
	// Params reads parameters.
	Params Params
	// Authorizer is the server's own. If nil, every check fails.
	Authorizer authorizer.Authorizer
}

// Plugin is an [admission.Validator].
type Plugin struct {
	config Config
	source
}

// New returns the plugin. It starts no goroutine.
func New(c Config) (*Plugin, error) {
	if c.Policies == nil || c.Bindings == nil || c.Namespaces == nil || c.Lookup == nil || c.Params == nil {
		return nil, errors.New("policy: Policies, Bindings, Namespaces, Lookup and Params must be set")
	}
	return &Plugin{c, source{
		namespaces: c.Namespaces, lookup: c.Lookup, params: c.Params, authorizer: c.Authorizer, compiler: newCompiler(), synced: make(chan struct{}),
	}}, nil
}

// Run follows the policies until ctx is done. The last ones then stay in force. It may be called once.
func (p *Plugin) Run(ctx context.Context) error {
	return follow(ctx, &p.source, p.config.Policies, p.config.Bindings, p.compiler.validating, validatingBinding)
}
