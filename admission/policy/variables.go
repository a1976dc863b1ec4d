package policy

import (
	"context"
	"fmt"
	"reflect"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"
	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/internal/rules"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/internal/kubecel"
	"github.com/planekit/planekit/internal/kubecel/authorizer"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// variables returns the variables that all policies have. They are those of f.
func (q *request) variables(ctx context.Context, f *form) (map[string]any, error) {
	if f.vars != nil {
		return f.vars, nil
	}
	r := q.r
	kind := schema.GroupVersionKind(f.r.Kind)
	object, err := kubecel.Object(f.r.Object, kind)
	if err != nil {
		return nil, fmt.Errorf("failed to prepare object variable for evaluation: %w", err)
	}
	old, err := kubecel.Object(f.r.OldObject, kind)
	if err != nil {
		return nil, fmt.Errorf("failed to prepare oldObject variable for evaluation: %w", err)
	}
	request, err := requestOf(r, f.r)
	if err != nil {
		return nil, fmt.Errorf("failed to prepare request variable for evaluation: %w", err)
	}
	namespace, err := namespaceOf(q.namespace)
	if err != nil {
		return nil, fmt.Errorf("failed to prepare namespace variable for evaluation: %w", err)
	}
	u := r.User
	if u == nil {
		u = &user.Info{}
	}
	all, resource := authorizer.Of(ctx, q.source.authorizer, u, authz.Attributes{
		Group: r.Resource.Group, Version: "*", Resource: r.Resource.Resource, Subresource: r.Subresource,
		Namespace: rules.NamespaceOf(r), Name: r.Name,
	})
	f.vars = map[string]any{
		"object": object, "oldObject": old, "request": request, "namespaceObject": namespace,
		"authorizer": all, "authorizer.requestResource": resource,
	}
	return f.vars, nil
}

func kindOf(k admission.GroupVersionKind) map[string]any {
	return map[string]any{"group": k.Group, "version": k.Version, "kind": k.Kind}
}

func resourceOf(r admission.GroupVersionResource) map[string]any {
	return map[string]any{"group": r.Group, "version": r.Version, "resource": r.Resource}
}

// requestOf returns the variable request for r, which a policy matches as another one.
func requestOf(r, as *admission.Request) (map[string]any, error) {
	out := map[string]any{
		"kind": kindOf(as.Kind), "resource": resourceOf(as.Resource), "requestKind": kindOf(r.Kind), "requestResource": resourceOf(r.Resource),
		"operation": string(r.Operation), "dryRun": r.DryRun, "userInfo": userOf(r.User), "uid": "", "options": nil,
	}
	for name, text := range map[string]string{
		"subResource": r.Subresource, "requestSubResource": r.Subresource, "name": r.Name, "namespace": rules.NamespaceOf(r),
	} {
		if text != "" {
			out[name] = text
		}
	}
	if r.Options == nil {
		return out, nil
	}
	options, err := runtime.DefaultUnstructuredConverter.ToUnstructured(r.Options)
	out["options"] = options
	return out, err
}

func userOf(u *user.Info) map[string]any {
	out := map[string]any{}
	if u == nil {
		return out
	}
	for name, text := range map[string]string{"username": u.Name, "uid": u.UID} {
		if text != "" {
			out[name] = text
		}
	}
	if len(u.Groups) > 0 {
		out["groups"] = u.Groups
	}
	if len(u.Extra) > 0 {
		out["extra"] = map[string][]string(u.Extra)
	}
	return out
}

// namespaceOf returns the variable namespaceObject: a namespace without its owners and managers.
func namespaceOf(n *corev1.Namespace) (any, error) {
	if n == nil {
		return nil, nil
	}
	return runtime.DefaultUnstructuredConverter.ToUnstructured(&corev1.Namespace{
		Spec: n.Spec, Status: n.Status,
		ObjectMeta: metav1.ObjectMeta{
			Name: n.Name, GenerateName: n.GenerateName, Namespace: n.Namespace, UID: n.UID, ResourceVersion: n.ResourceVersion,
			Generation: n.Generation, CreationTimestamp: n.CreationTimestamp, DeletionTimestamp: n.DeletionTimestamp,
			DeletionGracePeriodSeconds: n.DeletionGracePeriodSeconds, Labels: n.Labels, Annotations: n.Annotations, Finalizers: n.Finalizers,
		},
	})
}

// lazy is the value of variables: each is evaluated at its first use.
type lazy struct {
	traits.Mapper // nothing else can be done with it
	e             *evaluation
	known         map[string]ref.Val
}

func newLazy(e *evaluation) *lazy { return &lazy{e: e, known: map[string]ref.Val{}} }

// Find implements [traits.Mapper].
func (l *lazy) Find(key ref.Val) (ref.Val, bool) {
	name, ok := key.(types.String)
	if !ok {
		return types.MaybeNoSuchOverloadErr(key), true
	}
	if v, ok := l.known[string(name)]; ok {
		return v, true
	}
	i, ok := l.e.policy.byName[string(name)]
	if !ok {
		return nil, false
	}
	x := &l.e.policy.variables[i]
	l.known[x.key] = l.evaluate(x)
	return l.known[x.key], true
}

func (l *lazy) evaluate(x *expression) ref.Val {
	if x.err != nil {
		return types.NewErr("composited variable %q fails to compile: %v", x.key, x.err)
	}
	if l.e.depth++; l.e.depth > maxVariables {
		return types.NewErr("more than %d variables need one another", maxVariables)
	}
	defer func() { l.e.depth-- }()
	v, details, err := x.program.ContextEval(l.e.ctx, l.e.vars)
	cost, ok := costOf(details)
	if !ok {
		return types.NewErr("unable to calculate cost of variable %q", x.key)
	}
	l.e.spent += cost
	if err != nil {
		return types.NewErr("composited variable %q fails to evaluate: %v", x.key, err)
	}
	return v
}

// Get implements [traits.Indexer].
func (l *lazy) Get(key ref.Val) ref.Val {
	if v, ok := l.Find(key); ok {
		return v
	}
	return types.ValOrErr(key, "no such key: %v", key)
}

// Contains implements [traits.Container].
func (l *lazy) Contains(key ref.Val) ref.Val {
	_, ok := l.Find(key)
	return types.Bool(ok)
}

// ConvertToNative implements [ref.Val].
func (l *lazy) ConvertToNative(reflect.Type) (any, error) {
	return nil, fmt.Errorf("type conversion error from '%s'", lazyType.TypeName())
}

// ConvertToType implements [ref.Val].
func (l *lazy) ConvertToType(t ref.Type) ref.Val {
	return types.NewErr("type conversion error from '%s' to '%s'", lazyType.TypeName(), t.TypeName())
}

// Equal implements [ref.Val].
func (l *lazy) Equal(other ref.Val) ref.Val { return types.MaybeNoSuchOverloadErr(other) }

var lazyType = cel.ObjectType("kubernetes.variables", traits.FieldTesterType|traits.IndexerType)

// Type implements [ref.Val].
func (l *lazy) Type() ref.Type { return lazyType }

// Value implements [ref.Val].
func (l *lazy) Value() any { return l.known }

// Size implements [traits.Sizer].
func (l *lazy) Size() ref.Val { return types.Int(len(l.e.policy.variables)) }
