package policy

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/planekit/planekit/internal/kubecel"
	"github.com/planekit/planekit/internal/kubecel/authorizer"
	mutationcel "github.com/planekit/planekit/internal/kubecel/mutation"
	registration "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// policy is a policy with its bindings, ready to be evaluated. It is immutable.
type policy struct {
	from      metav1.Object
	name      string
	match     match
	broken    error // error in the matchConstraints
	ignore    bool  // ignore failures
	paramKind *schema.GroupVersionKind
	bindings  []*binding

	variables   []expression   // their keys are their names
	byName      map[string]int // indexes in variables; of several with a name, the first counts
	conditions  []expression
	validations []validation
	annotations []expression // their keys are those of the annotations
	mutations   []mutation
	again       bool // mutate again if needed
}

type binding struct {
	name, policy string
	paramRef     *registration.ParamRef
	actions      []registration.ValidationAction
	match        match
	broken       error // error in the matchResources
}

type validation struct {
	from    *registration.Validation
	holds   expression
	message expression // its text is empty without one
}

// expression is a compiled expression. If err is set, it does not compile.
type expression struct {
	key, text string
	program   cel.Program
	of        *cel.Type
	err       error
}

// compiler compiles policies. It is safe for concurrent use.
type compiler struct {
	// envs returns the environments by the variables that they have: params, and those of authorization. They are
	// made for the first policy, because they take some megabytes.
	envs func() (map[variables]*cel.Env, error)
}

type variables struct{ params, authorizer bool }

func newCompiler() *compiler { return &compiler{sync.OnceValues(newEnvs)} }

func newEnvs() (map[variables]*cel.Env, error) {
	base, err := kubecel.NewEnv(append(authorizer.Library(),
		cel.Variable("object", cel.DynType), cel.Variable("oldObject", cel.DynType),
		cel.Variable("namespaceObject", kubecel.NamespaceType), cel.Variable("request", kubecel.RequestType))...)
	if err != nil {
		return nil, err
	}
	envs := map[variables]*cel.Env{}
	for _, has := range []variables{{}, {params: true}, {authorizer: true}, {true, true}} {
		var more []cel.EnvOption
		if has.params {
			more = append(more, cel.Variable("params", cel.DynType))
		}
		if has.authorizer {
			more = append(more, cel.Variable("authorizer", kubecel.AuthorizerType), cel.Variable("authorizer.requestResource", kubecel.ResourceCheckType))
		}
		if envs[has], err = base.Extend(more...); err != nil {
			return nil, err
		}
	}
	return envs, nil
}

func validatingBinding(from *registration.ValidatingAdmissionPolicyBinding) *binding {
	b := newBinding(from.Name, from.Spec.PolicyName, from.Spec.ParamRef, from.Spec.MatchResources)
	b.actions = from.Spec.ValidationActions
	return b
}

func mutatingBinding(from *registration.MutatingAdmissionPolicyBinding) *binding {
	return newBinding(from.Name, from.Spec.PolicyName, from.Spec.ParamRef, from.Spec.MatchResources)
}

func newBinding(name, policy string, ref *registration.ParamRef, m *registration.MatchResources) *binding {
	b := &binding{name: name, policy: policy, paramRef: ref}
	if m != nil {
		b.match, b.broken = newMatch(m)
	}
	return b
}

// scope is where the expressions of one policy are compiled.
type scope struct {
	plain, asking *cel.Env // the latter with the variables of authorization
	conditions    *cel.Env
	fields        map[string]*cel.Type
}

func (c *compiler) scope(params bool) (*scope, error) {
	envs, err := c.envs()
	if err != nil {
		return nil, err
	}
	s := &scope{conditions: envs[variables{true, true}], fields: map[string]*cel.Type{}}
	var wrong [2]error
	const name, of = "variables", "kubernetes.variables"
	s.plain, wrong[0] = kubecel.DeclareObject(envs[variables{params: true}], name, of, s.fields)
	s.asking, wrong[1] = kubecel.DeclareObject(envs[variables{params, true}], name, of, s.fields)
	return s, errors.Join(wrong[:]...)
}

// policy compiles what policies of both kinds have. The scope is nil if the policy is broken.
func (c *compiler) policy(ctx context.Context, constraints *registration.MatchResources, failure *registration.FailurePolicyType, kind *registration.ParamKind,
	variables []registration.Variable, conditions []registration.MatchCondition) (*policy, *scope) {
	p := &policy{ignore: failure != nil && *failure == registration.Ignore, byName: map[string]int{}}
	if constraints != nil {
		p.match, p.broken = newMatch(constraints)
	}
	if kind != nil {
		of := schema.FromAPIVersionAndKind(kind.APIVersion, kind.Kind)
		p.paramKind = &of
	}
	s, err := c.scope(p.paramKind != nil)
	if err != nil {
		p.broken = errors.Join(p.broken, err)
		return p, nil
	}
	p.variables = s.variables(ctx, variables)
	for i, e := range p.variables {
		if _, ok := p.byName[e.key]; !ok {
			p.byName[e.key] = i
		}
	}
	for i := range conditions {
		p.conditions = append(p.conditions, compile(ctx, s.conditions, conditions[i].Name, strings.TrimSpace(conditions[i].Expression), cel.BoolType))
	}
	return p, s
}

// validating compiles a policy without its bindings.
func (c *compiler) validating(ctx context.Context, from *registration.ValidatingAdmissionPolicy) *policy {
	spec := &from.Spec
	p, s := c.policy(ctx, spec.MatchConstraints, spec.FailurePolicy, spec.ParamKind, spec.Variables, spec.MatchConditions)
	if s == nil {
		return p
	}
	for i := range spec.Validations {
		v := validation{from: &spec.Validations[i]}
		v.holds = compile(ctx, s.asking, "", v.from.Expression, cel.BoolType)
		if v.from.MessageExpression != "" {
			v.message = compile(ctx, s.plain, "", v.from.MessageExpression, cel.StringType)
		}
		p.validations = append(p.validations, v)
	}
	for _, a := range spec.AuditAnnotations {
		p.annotations = append(p.annotations, compile(ctx, s.asking, a.Key, a.ValueExpression, cel.StringType, cel.NullType))
	}
	return p
}

// mutation is one change of a mutating policy.
type mutation struct {
	// change is a configuration to apply, or a JSON patch if patch is set.
	change expression
	patch  bool
}

// mutating compiles a policy without its bindings.
func (c *compiler) mutating(ctx context.Context, from *registration.MutatingAdmissionPolicy) *policy {
	spec := &from.Spec
	p, s := c.policy(ctx, spec.MatchConstraints, spec.FailurePolicy, spec.ParamKind, spec.Variables, spec.MatchConditions)
	if s == nil {
		return p
	}
	p.again = spec.ReinvocationPolicy == registration.IfNeededReinvocationPolicy
	env, err := mutationcel.Extend(s.asking)
	if err != nil {
		p.broken = errors.Join(p.broken, err)
		return p
	}
	for _, m := range spec.Mutations {
		switch {
		case m.PatchType == registration.PatchTypeJSONPatch && m.JSONPatch != nil:
			p.mutations = append(p.mutations, mutation{compile(ctx, env, "", m.JSONPatch.Expression, mutationcel.PatchesType), true})
		case m.PatchType == registration.PatchTypeApplyConfiguration && m.ApplyConfiguration != nil:
			p.mutations = append(p.mutations, mutation{compile(ctx, env, "", m.ApplyConfiguration.Expression, mutationcel.ObjectType), false})
		}
	}
	return p
}

// variables compiles variables, of which each may use those before it.
func (s *scope) variables(ctx context.Context, list []registration.Variable) []expression {
	var all []expression
	for _, v := range list {
		e := compile(ctx, s.asking, v.Name, v.Expression)
		s.fields[v.Name] = declared(e.of)
		all = append(all, e)
	}
	return all
}

// declared returns the type of a variable of a type: values of Kubernetes' own types may be anything.
func declared(t *cel.Type) *cel.Type {
	if t == nil {
		return cel.DynType
	}
	switch t.Kind() {
	case types.BoolKind, types.BytesKind, types.DoubleKind, types.DurationKind, types.IntKind, types.NullTypeKind, types.StringKind,
		types.TimestampKind, types.UintKind, types.AnyKind:
		return t
	case types.ListKind:
		return cel.ListType(declared(t.Parameters()[0]))
	case types.MapKind:
		return cel.MapType(declared(t.Parameters()[0]), declared(t.Parameters()[1]))
	}
	return cel.DynType
}

// compile compiles an expression of one of the types; none are all.
func compile(ctx context.Context, env *cel.Env, key, text string, of ...*cel.Type) expression {
	e := expression{key: key, text: text}
	ast, err := kubecel.Compile(ctx, env, text)
	if err != nil {
		e.err = err
		return e
	}
	e.of = ast.OutputType()
	switch {
	case len(of) == 0 || slices.ContainsFunc(of, e.of.IsExactType):
		e.program, e.err = kubecel.Program(env, ast)
	case len(of) == 1:
		e.err = fmt.Errorf("must evaluate to %v but got %v", of[0], e.of)
	default:
		e.err = fmt.Errorf("must evaluate to one of %v but got %v", of, e.of)
	}
	return e
}
