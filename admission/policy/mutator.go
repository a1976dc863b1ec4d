package policy

import (
	"context"
	"errors"
	"fmt"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/internal/patched"
	"github.com/planekit/planekit/internal/budget"
	"github.com/planekit/planekit/internal/kubecel"
	"github.com/planekit/planekit/internal/kubecel/authorizer"
	"github.com/planekit/planekit/localcache"
	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

// Schemas knows how the fields of kinds merge. It must be safe for concurrent use.
type Schemas interface {
	// Type returns the type of a kind. It fails if there is no such kind, or not yet.
	Type(ctx context.Context, kind schema.GroupVersionKind) (typed.ParseableType, error)
}

// MutatorConfig configures a [Mutator]. All fields but Authorizer are required.
type MutatorConfig struct {
	// Policies and Bindings are the caches of the objects.
	Policies localcache.ListSubscriber[*registration.MutatingAdmissionPolicy]
	Bindings localcache.ListSubscriber[*registration.MutatingAdmissionPolicyBinding]
	// Namespaces, Lookup, Params and Authorizer are those of [Config].
	Namespaces localcache.Getter[*corev1.Namespace]
	Lookup     func(ctx context.Context, name string) (*corev1.Namespace, error)
	Params     Params
	Authorizer authorizer.Authorizer
	// Schemas says how apply configurations merge.
	Schemas Schemas
}

// MutatorName is the name of the [Mutator] in --enable-admission-plugins.
const MutatorName = "MutatingAdmissionPolicy"

// Mutator is an [admission.Mutator].
type Mutator struct {
	config MutatorConfig
	source
	patches patched.Decoder
}

// NewMutator returns the plugin. It starts no goroutine.
func NewMutator(c MutatorConfig) (*Mutator, error) {
	if c.Policies == nil || c.Bindings == nil || c.Namespaces == nil || c.Lookup == nil || c.Params == nil || c.Schemas == nil {
		return nil, errors.New("policy: Policies, Bindings, Namespaces, Lookup, Params and Schemas must be set")
	}
	return &Mutator{config: c, source: source{
		namespaces: c.Namespaces, lookup: c.Lookup, params: c.Params, authorizer: c.Authorizer, compiler: newCompiler(), synced: make(chan struct{}),
	}}, nil
}

// Run follows the policies until ctx is done. The last ones then stay in force. It may be called once.
func (m *Mutator) Run(ctx context.Context) error {
	return follow(ctx, &m.source, m.config.Policies, m.config.Bindings, m.compiler.mutating, mutatingBinding)
}

// Mutate applies the policies that match r, one after another.
func (m *Mutator) Mutate(ctx context.Context, r *admission.Request) error {
	if r.Operation == admission.Delete {
		return nil
	}
	all, err := m.current(ctx, r)
	if err != nil || len(all) == 0 {
		return err
	}
	namespace, err := m.namespace(ctx, r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, kubecel.TimeLimit)
	defer cancel()
	c := &changes{plugin: m, request: request{source: &m.source, r: r, namespace: namespace}, rounds: roundsOf(ctx)}
	repeats := c.rounds.begin(r.Object)
	defer func() { c.rounds.end(r.Object) }()
	for _, p := range all {
		if len(p.match.rules) == 0 || repeats && !p.again {
			continue
		}
		as, ok := p.match.selects(r, namespace)
		if !ok {
			continue
		}
		if err := c.apply(ctx, p, as, repeats); err != nil {
			return err
		}
	}
	return mutationRefusal(r, c.problems)
}

// problem is why a mutating policy refuses a request.
type problem struct {
	policy, binding string // the latter is empty if the policy cannot be used at all
	err             error
	reason          metav1.StatusReason // empty means Forbidden
}

func (p *problem) String() string {
	if p.binding == "" {
		return fmt.Sprintf("policy %q denied request: %v", p.policy, p.err)
	}
	return fmt.Sprintf("policy '%s' with binding '%s' denied request: %v", p.policy, p.binding, p.err)
}

// maxCauses bounds the problems that an answer lists.
const maxCauses = 250

// mutationRefusal words the answer to a request with problems; nil if there are none.
func mutationRefusal(r *admission.Request, all []problem) error {
	if len(all) == 0 {
		return nil
	}
	err := apierrors.NewForbidden(schema.GroupResource{Group: r.Resource.Group, Resource: r.Resource.Resource}, r.Called(),
		errors.New("admission request denied by policy"))
	err.ErrStatus.Message = all[0].String()
	if all[0].reason != "" {
		err.ErrStatus.Reason = all[0].reason
	}
	for i := range all[:min(len(all), maxCauses)] {
		err.ErrStatus.Details.Causes = append(err.ErrStatus.Details.Causes, metav1.StatusCause{Message: all[i].String()})
	}
	return err
}

// changes collects the changes of all policies to one request.
type changes struct {
	plugin *Mutator
	request
	rounds   *rounds
	problems []problem
}

func (c *changes) fail(p *policy, b *binding, err error, reason metav1.StatusReason) {
	if p.ignore {
		return
	}
	one := problem{policy: p.name, err: err, reason: reason}
	if b != nil {
		one.binding = b.name
	}
	c.problems = append(c.problems, one)
}

// apply applies a policy that matches the request as one of a type. An error ends the request, whatever the policy's
// failurePolicy.
func (c *changes) apply(ctx context.Context, p *policy, as admission.Equivalent, repeats bool) error {
	const ofPolicy, ofBinding = "failed to configure policy: %w", "failed to configure binding: %w"
	if p.broken != nil {
		c.fail(p, nil, fmt.Errorf(ofPolicy, p.broken), "")
		return nil
	}
	namespaced, err := c.source.scopeOf(ctx, p)
	if err != nil {
		c.fail(p, nil, fmt.Errorf(ofPolicy, err), "")
		return nil
	}
	spent := budget.From(ctx)
	for _, b := range p.bindings {
		if err := spent.Work(bindingSteps); err != nil {
			return err
		}
		if b.broken != nil {
			c.fail(p, b, fmt.Errorf(ofBinding, b.broken), "")
			continue
		}
		if _, ok := b.match.selects(c.r, c.namespace); !ok {
			continue
		}
		if _, err := c.form(ctx, as); err != nil {
			c.fail(p, nil, fmt.Errorf(ofPolicy, err), "")
			continue
		}
		params, err := c.source.paramsOf(ctx, p, b.paramRef, namespaced, c.r.Namespace)
		if err != nil {
			c.fail(p, b, fmt.Errorf(ofBinding, err), "")
			continue
		}
		for _, param := range params {
			if err := spent.Work(bindingSteps); err != nil {
				return err
			}
			key := invocationKey(p, b, param)
			if repeats && !c.rounds.invoked[key] {
				continue
			}
			if err := c.mutate(ctx, as, p, b, param, key); err != nil {
				return err
			}
		}
	}
	return nil
}

// mutate applies a policy through a binding with one parameter.
func (c *changes) mutate(ctx context.Context, as admission.Equivalent, p *policy, b *binding, param map[string]any, key invocation) error {
	f, err := c.form(ctx, as) // an earlier one may have changed the object
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	vars, err := c.variables(ctx, f)
	if err != nil {
		return apierrors.NewInternalError(err)
	}
	switch matches, err := newEvaluation(ctx, p, vars, param).matches(); {
	case err != nil:
		c.fail(p, b, err, metav1.StatusReasonInvalid)
		return nil
	case !matches:
		return nil
	}
	if p.again {
		c.rounds.invoked[key] = true
	}
	for i := range p.mutations {
		if c.r.Object == nil {
			break
		}
		object, err := c.changed(ctx, f, newEvaluation(ctx, p, vars, param), &p.mutations[i])
		var status apierrors.APIStatus
		switch {
		case errors.As(err, &status):
			return err
		case err != nil:
			c.fail(p, b, err, metav1.StatusReasonInvalid)
			continue
		}
		c.rounds.changed = true
		if object == nil {
			continue
		}
		if err := c.replace(ctx, f, object); err != nil {
			return apierrors.NewInternalError(fmt.Errorf("failed to convert object: %w", err))
		}
		if vars["object"], err = kubecel.Object(object, schema.GroupVersionKind(f.r.Kind)); err != nil {
			return apierrors.NewInternalError(fmt.Errorf("failed to prepare object variable for evaluation: %w", err))
		}
	}
	return nil
}

// rounds records what policies did to one request so far.
type rounds struct {
	begun int
	// invoked are the invocations of policies that may be repeated, and changed whether there was any change.
	invoked map[invocation]bool
	changed bool
	left    any // the object as the last round left it
}

// invocation identifies a policy with a binding and a parameter.
type invocation struct{ policy, binding, namespace, name string }

func invocationKey(p *policy, b *binding, param map[string]any) invocation {
	key := invocation{policy: p.name, binding: b.name}
	if meta, ok := param["metadata"].(map[string]any); ok {
		key.namespace, _ = meta["namespace"].(string)
		key.name, _ = meta["name"].(string)
	}
	return key
}

type roundsKey struct{}

// WithRounds returns the context of a request whose mutating plugins may run twice, [Mutator.Mutate] with them. In
// the second round only those policies apply that may be repeated, and only if something has changed the object.
func WithRounds(ctx context.Context) context.Context {
	return context.WithValue(ctx, roundsKey{}, &rounds{invoked: map[invocation]bool{}})
}

// Repeats reports whether policies have changed the object of a request in the first round, so that a second
// is due. Without [WithRounds] there is none.
func Repeats(ctx context.Context) bool {
	r, ok := ctx.Value(roundsKey{}).(*rounds)
	return ok && r.begun == 1 && r.changed
}

func roundsOf(ctx context.Context) *rounds {
	if r, ok := ctx.Value(roundsKey{}).(*rounds); ok {
		return r
	}
	return &rounds{invoked: map[invocation]bool{}}
}

// begin begins a round. In the second one it reports that only repeated policies apply.
func (r *rounds) begin(object any) (repeats bool) {
	if r.begun++; r.begun == 1 {
		return false
	}
	if !r.changed && patched.Same(r.left, object) {
		clear(r.invoked)
	}
	return true
}

// end ends a round.
func (r *rounds) end(object any) {
	r.left = nil
	if o, ok := object.(runtime.Object); ok && r.begun == 1 && len(r.invoked) > 0 && !r.changed {
		r.left = o.DeepCopyObject()
	}
}
