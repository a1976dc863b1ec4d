package mutating

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"testing"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/policy"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/internal/mergeschema"
	"github.com/planekit/planekit/localcache"
	registration "k8s.io/api/admissionregistration/v1"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	stock "k8s.io/apiserver/pkg/admission"
	plugincel "k8s.io/apiserver/pkg/admission/plugin/cel"
	"k8s.io/apiserver/pkg/admission/plugin/policy/generic"
	"k8s.io/apiserver/pkg/admission/plugin/policy/matching"
	stockmutating "k8s.io/apiserver/pkg/admission/plugin/policy/mutating"
	"k8s.io/apiserver/pkg/admission/plugin/policy/mutating/patch"
	"k8s.io/apiserver/pkg/admission/plugin/webhook/matchconditions"
	stockuser "k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/cel/environment"
	"k8s.io/client-go/kubernetes/fake"
	listers "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/openapi/openapitest"
	"k8s.io/client-go/tools/cache"
	"k8s.io/kube-openapi/pkg/spec3"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	_ "k8s.io/kubernetes/pkg/apis/apps/install" // the internal types of the stock evaluation
	_ "k8s.io/kubernetes/pkg/apis/core/install"
	"sigs.k8s.io/structured-merge-diff/v6/typed"
)

var deployments = appsv1.SchemeGroupVersion.WithKind("Deployment")

// documents are the schemas of a group version, in the forms of both sides.
type documents struct {
	converter managedfields.TypeConverter
	kinds     map[schema.GroupVersionKind]typed.ParseableType
}

func readSchemas(t *testing.T) *documents {
	t.Helper()
	paths, err := openapitest.NewEmbeddedFileClient().Paths()
	if err != nil {
		t.Fatal(err)
	}
	data, err := paths["apis/apps/v1"].Schema(runtime.ContentTypeJSON)
	if err != nil {
		t.Fatal(err)
	}
	var parsed spec3.OpenAPI
	var raw struct {
		Components struct{ Schemas json.RawMessage }
	}
	if err := errors.Join(json.Unmarshal(data, &parsed), json.Unmarshal(data, &raw)); err != nil {
		t.Fatal(err)
	}
	d := &documents{}
	if d.converter, err = managedfields.NewTypeConverter(parsed.Components.Schemas, false); err != nil {
		t.Fatal(err)
	}
	if d.kinds, err = mergeschema.Kinds(raw.Components.Schemas); err != nil {
		t.Fatal(err)
	}
	return d
}

// GetTypeConverter and Run implement [patch.TypeConverterManager].
func (d *documents) GetTypeConverter(schema.GroupVersionKind) managedfields.TypeConverter {
	return d.converter
}
func (d *documents) Run(context.Context) {}

// Type implements [policy.Schemas].
func (d *documents) Type(_ context.Context, kind schema.GroupVersionKind) (typed.ParseableType, error) {
	t, ok := d.kinds[kind]
	if !ok {
		return t, errors.New("there is none")
	}
	return t, nil
}

// outcome holds the answer to a request.
type outcome struct {
	object string
	status metav1.Status
	again  bool
}

// result returns the outcome of a request for an object, with the defaults that a server sets.
func result(t *testing.T, object *appsv1.Deployment, err error, again bool) outcome {
	t.Helper()
	var o outcome
	var status apierrors.APIStatus
	switch {
	case errors.As(err, &status):
		o.status = status.Status()
		o.status.TypeMeta, o.status.ListMeta = metav1.TypeMeta{}, metav1.ListMeta{}
		return o
	case err != nil:
		t.Fatalf("the error is a %T: %v, want an APIStatus or none", err, err)
	}
	o.again = again
	object = object.DeepCopy()
	object.TypeMeta = metav1.TypeMeta{}
	legacyscheme.Scheme.Default(object)
	data, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	o.object = string(data)
	return o
}

// compiled returns what Kubernetes makes of a policy: it exports all but the function that does this.
func compiled(t *testing.T, p *registration.MutatingAdmissionPolicy) stockmutating.PolicyEvaluator {
	t.Helper()
	options := plugincel.OptionalVariableDeclarations{HasParams: p.Spec.ParamKind != nil, HasAuthorizer: true}
	compiler, err := plugincel.NewCompositedCompiler(environment.MustBaseEnvSet(environment.DefaultCompatibilityVersion()))
	if err != nil {
		t.Fatal(err)
	}
	var variables []plugincel.NamedExpressionAccessor
	for _, v := range p.Spec.Variables {
		variables = append(variables, &stockmutating.Variable{Name: v.Name, Expression: v.Expression})
	}
	compiler.CompileAndStoreVariables(variables, options, environment.StoredExpressions)
	out := stockmutating.PolicyEvaluator{CompositedCompiler: compiler}
	if len(p.Spec.MatchConditions) > 0 {
		var conditions []plugincel.ExpressionAccessor
		for i := range p.Spec.MatchConditions {
			conditions = append(conditions, (*matchconditions.MatchCondition)(&p.Spec.MatchConditions[i]))
		}
		out.Matcher = matchconditions.NewMatcher(compiler.CompileCondition(conditions, options, environment.StoredExpressions),
			p.Spec.FailurePolicy, "policy", "validate", p.Name)
	}
	options.HasPatchTypes = true
	for _, m := range p.Spec.Mutations {
		if m.PatchType == registration.PatchTypeJSONPatch {
			out.Mutators = append(out.Mutators, patch.NewJSONPatcher(compiler.CompileMutatingEvaluator(
				&patch.JSONPatchCondition{Expression: m.JSONPatch.Expression}, options, environment.StoredExpressions)))
		} else {
			out.Mutators = append(out.Mutators, patch.NewApplyConfigurationPatcher(compiler.CompileMutatingEvaluator(
				&patch.ApplyConfigurationCondition{Expression: m.ApplyConfiguration.Expression}, options, environment.StoredExpressions)))
		}
	}
	return out
}

// theirs returns the outcome of Kubernetes' evaluation. between changes the object before a second round.
func theirs(t *testing.T, d *documents, policies []*registration.MutatingAdmissionPolicy, object *appsv1.Deployment, between func(metav1.Object)) outcome {
	t.Helper()
	namespaces := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	if err := namespaces.Add(&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}); err != nil {
		t.Fatal(err)
	}
	matcher := matching.NewMatcher(listers.NewNamespaceLister(namespaces), fake.NewClientset())
	dispatcher := stockmutating.NewDispatcher(authorizerfactory.NewAlwaysDenyAuthorizer(), matcher, d)
	var hooks []stockmutating.PolicyHook
	for _, p := range policies {
		hooks = append(hooks, generic.PolicyHook[*registration.MutatingAdmissionPolicy, *registration.MutatingAdmissionPolicyBinding, stockmutating.PolicyEvaluator]{
			Policy: p, Bindings: []*registration.MutatingAdmissionPolicyBinding{bindingOf(p)}, Evaluator: compiled(t, p),
		})
	}
	internal, err := legacyscheme.Scheme.UnsafeConvertToVersion(object.DeepCopy(), schema.GroupVersion{Group: "apps", Version: runtime.APIVersionInternal})
	if err != nil {
		t.Fatal(err)
	}
	a := stock.NewAttributesRecord(internal, nil, deployments, "shop", object.Name, deployments.GroupVersion().WithResource("deployments"), "",
		stock.Create, &metav1.CreateOptions{}, false, &stockuser.DefaultInfo{Name: "jane"})
	interfaces := stock.NewObjectInterfacesFromScheme(legacyscheme.Scheme)
	err = dispatcher.Dispatch(t.Context(), a, interfaces, hooks)
	again := a.GetReinvocationContext().ShouldReinvoke()
	if err == nil && between != nil {
		between(internal.(metav1.Object))
		a.GetReinvocationContext().SetIsReinvoke()
		err = dispatcher.Dispatch(t.Context(), a, interfaces, hooks)
	}
	out := &appsv1.Deployment{}
	if err := legacyscheme.Scheme.Convert(internal, out, nil); err != nil {
		t.Fatal(err)
	}
	return result(t, out, err, again)
}

func bindingOf(p *registration.MutatingAdmissionPolicy) *registration.MutatingAdmissionPolicyBinding {
	return &registration.MutatingAdmissionPolicyBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "b-" + p.Name}, Spec: registration.MutatingAdmissionPolicyBindingSpec{PolicyName: p.Name},
	}
}

// fixed is a cache whose objects never change.
type fixed[T any] []T

func (f fixed[T]) All() iter.Seq[T] { return slices.Values(f) }
func (f fixed[T]) Synced() <-chan struct{} {
	synced := make(chan struct{})
	close(synced)
	return synced
}
func (f fixed[T]) Subscribe(func(old, new T)) localcache.Subscription {
	return localcache.Subscription{Stop: func() {}}
}

type namespaces struct{}

func (namespaces) Get(name string) (*corev1.Namespace, bool) {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, true
}

// noParams implements [policy.Params].
type noParams struct{}

func (noParams) Namespaced(context.Context, schema.GroupVersionKind) (bool, error) {
	return false, errors.New("there are none")
}

func (noParams) Get(context.Context, schema.GroupVersionKind, string, string) (map[string]any, error) {
	return nil, errors.New("there are none")
}

func (noParams) List(context.Context, schema.GroupVersionKind, string, labels.Selector) ([]map[string]any, error) {
	return nil, errors.New("there are none")
}

// ours returns the outcome of planekit's evaluation.
func ours(t *testing.T, d *documents, policies []*registration.MutatingAdmissionPolicy, object *appsv1.Deployment, between func(metav1.Object)) outcome {
	t.Helper()
	var bindings fixed[*registration.MutatingAdmissionPolicyBinding]
	for _, p := range policies {
		bindings = append(bindings, bindingOf(p))
	}
	m, err := policy.NewMutator(policy.MutatorConfig{
		Policies: fixed[*registration.MutatingAdmissionPolicy](policies), Bindings: bindings, Namespaces: namespaces{}, Params: noParams{}, Schemas: d,
		Lookup: func(context.Context, string) (*corev1.Namespace, error) { return nil, errors.New("no need") },
		Authorizer: authz.Func(func(context.Context, authz.Attributes) (authz.Decision, string, error) {
			return authz.Deny, "", nil
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1) // one answer
	go func() { done <- m.Run(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()
	r := &admission.Request{
		Operation: admission.Create, Namespace: "shop", Name: object.Name, Object: object.DeepCopy(), User: &user.Info{Name: "jane"}, Options: &metav1.CreateOptions{},
		Kind: admission.GroupVersionKind(deployments), Resource: admission.GroupVersionResource{Group: "apps", Version: "v1", Resource: "deployments"},
	}
	ctx = policy.WithRounds(ctx)
	err = m.Mutate(ctx, r)
	again := policy.Repeats(ctx)
	if err == nil && between != nil {
		between(r.Object.(metav1.Object))
		err = m.Mutate(ctx, r)
	}
	return result(t, r.Object.(*appsv1.Deployment), err, again)
}

func deployment() *appsv1.Deployment {
	replicas := int32(2)
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "web", Labels: map[string]string{"app": "web", "a/b": "c"}},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "web"}},
				Spec: corev1.PodSpec{
					Containers: []corev1.Container{
						{Name: "web", Image: "nginx", Args: []string{"a"}, Env: []corev1.EnvVar{{Name: "A", Value: "1"}, {Name: "B", Value: "2"}}},
						{Name: "log", Image: "fluentd", Ports: []corev1.ContainerPort{{ContainerPort: 80}}},
					},
					Tolerations: []corev1.Toleration{{Key: "x", Operator: corev1.TolerationOpExists}},
				},
			},
		},
	}
	legacyscheme.Scheme.Default(d)
	return d
}

func describe(p *registration.MutatingAdmissionPolicy) string {
	data, err := json.Marshal(p.Spec)
	return fmt.Sprint(p.Name, ": ", string(data), err)
}
