// Package policy evaluates ValidatingAdmissionPolicies: rules in CEL that are objects of the API
// (https://kubernetes.io/docs/reference/access-authn-authz/validating-admission-policy/). It is the
// plugin ValidatingAdmissionPolicy of Kubernetes.
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
// The costs of expressions are bounded as in kube-apiserver: one million for an expression, two and a half
// million for the conditions of a policy, and ten million for its validations with one parameter, in CEL's units.
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
// # Left out
//
// The check of types that kube-apiserver writes into the status of a policy. matchPolicy Equivalent equals Exact:
// a rule is about the versions that it names. MutatingAdmissionPolicies.
package policy

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/internal/rules"
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

// patience is how long a request waits for the first policies.
const patience = 10 * time.Second

// Plugin is an [admission.Validator].
type Plugin struct {
	config   Config
	compiler *compiler
	synced   chan struct{}
	policies atomic.Pointer[[]*policy] // nil until the caches have synced
}

// New returns the plugin. It starts no goroutine.
func New(c Config) (*Plugin, error) {
	if c.Policies == nil || c.Bindings == nil || c.Namespaces == nil || c.Lookup == nil || c.Params == nil {
		return nil, errors.New("policy: Policies, Bindings, Namespaces, Lookup and Params must be set")
	}
	return &Plugin{config: c, compiler: newCompiler(), synced: make(chan struct{})}, nil
}

// Synced returns a channel that is closed when policies apply.
func (p *Plugin) Synced() <-chan struct{} { return p.synced }

// Run follows the policies until ctx is done. The last ones then stay in force. It may be called once.
func (p *Plugin) Run(ctx context.Context) error {
	wake := make(chan struct{}, 1) // size 1: something has changed
	changed := func() {
		select {
		case wake <- struct{}{}:
		default:
		}
	}
	policies := p.config.Policies.Subscribe(func(_, _ *registration.ValidatingAdmissionPolicy) { changed() })
	defer policies.Stop()
	bindings := p.config.Bindings.Subscribe(func(_, _ *registration.ValidatingAdmissionPolicyBinding) { changed() })
	defer bindings.Stop()
	for _, synced := range []<-chan struct{}{p.config.Policies.Synced(), p.config.Bindings.Synced()} {
		select {
		case <-synced:
		case <-ctx.Done():
			return nil
		}
	}
	var known []*policy
	for first := true; ; first = false {
		next := p.compiler.policies(p.config.Policies.All(), p.config.Bindings.All(), known)
		p.policies.Store(&next)
		known = next
		if first {
			close(p.synced)
		}
		select {
		case <-wake:
		case <-ctx.Done():
			return nil
		}
	}
}

var errNotReady = errors.New("not yet ready to handle request")

// current returns the policies that may apply to r.
func (p *Plugin) current(ctx context.Context, r *admission.Request) ([]*policy, error) {
	if rules.Exempt(r.Kind) {
		return nil, nil
	}
	if all := p.policies.Load(); all != nil {
		return *all, nil
	}
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-p.synced:
		return *p.policies.Load(), nil
	case <-timer.C:
	case <-ctx.Done():
	}
	return nil, admission.Forbidden(r, errNotReady)
}
