package policy_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/policy"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	"github.com/planekit/planekit/localcache"
	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// cache is a local cache of objects.
type cache[T any] struct {
	mu       sync.Mutex
	all      []T
	handlers []func(old, new T)
	synced   chan struct{}
}

func newCache[T any](all ...T) *cache[T] {
	c := &cache[T]{all: all, synced: make(chan struct{})}
	close(c.synced)
	return c
}

func (c *cache[T]) All() iter.Seq[T] {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Values(slices.Clone(c.all))
}

func (c *cache[T]) Synced() <-chan struct{} { return c.synced }

func (c *cache[T]) Subscribe(handle func(old, new T)) localcache.Subscription {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.handlers = append(c.handlers, handle)
	return localcache.Subscription{Stop: func() {}}
}

// set replaces the objects.
func (c *cache[T]) set(all ...T) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = all
	var none T
	for _, handle := range c.handlers {
		handle(none, all[0])
	}
}

type namespaces map[string]*corev1.Namespace

func (n namespaces) Get(name string) (*corev1.Namespace, bool) {
	one, ok := n[name]
	return one, ok
}

// params holds ConfigMaps by namespace and name.
type params map[string]map[string]any

func (params) Namespaced(_ context.Context, kind schema.GroupVersionKind) (bool, error) {
	if kind.Kind != "ConfigMap" {
		return false, errors.New("there is no such kind")
	}
	return true, nil
}

func (p params) Get(_ context.Context, _ schema.GroupVersionKind, namespace, name string) (map[string]any, error) {
	if one := p[namespace+"/"+name]; one != nil {
		return one, nil
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "configmaps"}, name)
}

func (p params) List(_ context.Context, _ schema.GroupVersionKind, namespace string, with labels.Selector) ([]map[string]any, error) {
	var all []map[string]any
	for key, one := range p {
		if strings.HasPrefix(key, namespace+"/") && with.Matches(labels.Set{"kind": fmt.Sprint(one["kind"])}) {
			all = append(all, one)
		}
	}
	return all, nil
}

func read[T any](text string) *T {
	out := new(T)
	if err := yaml.UnmarshalStrict([]byte(text), out); err != nil {
		panic(text + err.Error())
	}
	return out
}

const pods = "\nspec: {matchConstraints: {resourceRules: [{apiGroups: [''], apiVersions: [v1], operations: [CREATE, UPDATE], resources: [pods]}]}, "

func policyOf(spec string) *registration.ValidatingAdmissionPolicy {
	return read[registration.ValidatingAdmissionPolicy]("metadata: {name: p}" + pods + spec + "}")
}

func bindingOf(spec string) *registration.ValidatingAdmissionPolicyBinding {
	return read[registration.ValidatingAdmissionPolicyBinding]("metadata: {name: b}\nspec: {policyName: p, " + spec + "}")
}

// start runs the plugin until the test ends.
func start(t testing.TB, policies []*registration.ValidatingAdmissionPolicy, bindings []*registration.ValidatingAdmissionPolicyBinding) *policy.Plugin {
	t.Helper()
	return run(t, newCache(policies...), newCache(bindings...))
}

func run(t testing.TB, policies *cache[*registration.ValidatingAdmissionPolicy], bindings *cache[*registration.ValidatingAdmissionPolicyBinding]) *policy.Plugin {
	t.Helper()
	p, err := policy.New(policy.Config{
		Policies: policies, Bindings: bindings,
		Namespaces: namespaces{"web": {ObjectMeta: metav1.ObjectMeta{Name: "web", Labels: map[string]string{"tier": "front"}}}},
		Lookup: func(_ context.Context, name string) (*corev1.Namespace, error) {
			return nil, apierrors.NewNotFound(schema.GroupResource{Resource: "namespaces"}, name)
		},
		Params: params{
			"web/limits": {"kind": "ConfigMap", "data": map[string]any{"most": "3"}},
			"web/more":   {"kind": "Other", "data": map[string]any{"most": "1"}},
		},
		Authorizer: authz.Func(func(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
			if a.User.Name == "jane" && a.Verb == "break" {
				return authz.Allow, "", nil
			}
			return authz.Deny, "", nil
		}),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- p.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	<-p.Synced()
	return p
}

// seen collects the warnings to the client and the annotations of the audit event.
type seen struct{ warnings, annotations []string }

func request(s *seen) *admission.Request {
	return &admission.Request{
		Operation: admission.Create, Resource: admission.GroupVersionResource{Version: "v1", Resource: "pods"},
		Kind: admission.GroupVersionKind{Version: "v1", Kind: "Pod"}, Namespace: "web", Name: "nginx", User: &user.Info{Name: "jane", Groups: []string{"dev"}},
		Object:   &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "nginx", Namespace: "web", Labels: map[string]string{"app": "web"}}, Spec: corev1.PodSpec{HostNetwork: true, Containers: []corev1.Container{{Name: "a"}, {Name: "b"}}}},
		Options:  &metav1.CreateOptions{},
		Warn:     func(text string) { s.warnings = append(s.warnings, text) },
		Annotate: func(key, value string) { s.annotations = append(s.annotations, key+"="+value) },
	}
}

const denies = "validationActions: [Deny]"

// TestValidate has the texts of kube-apiserver.
func TestValidate(t *testing.T) {
	synctest.Test(t, testValidate)
}

func testValidate(t *testing.T) {
	const prefix = `pods "nginx" is forbidden: ValidatingAdmissionPolicy 'p' with binding 'b' denied request: `
	policies, bindings := newCache[*registration.ValidatingAdmissionPolicy](), newCache[*registration.ValidatingAdmissionPolicyBinding]()
	p := run(t, policies, bindings)
	for name, test := range map[string]struct{ policy, binding, want string }{
		"true":       {"validations: [{expression: 'true'}]", denies, ""},
		"false":      {"validations: [{expression: '!object.spec.hostNetwork'}]", denies, prefix + "failed expression: !object.spec.hostNetwork"},
		"message":    {"validations: [{expression: 'false', message: 'no host'}]", denies, prefix + "no host"},
		"expression": {"validations: [{expression: 'false', message: 'no', messageExpression: '\"it has \" + string(object.spec.containers.size())'}]", denies, prefix + "it has 2"},
		"fallback":   {"validations: [{expression: 'false', message: 'no', messageExpression: 'object.spec.nothing'}]", denies, prefix + "no"},
		"variables":  {"variables: [{name: size, expression: 'object.spec.containers.size()'}, {name: m, expression: 'variables.size * 2'}], validations: [{expression: 'variables.m < 4', messageExpression: 'string(variables.m)'}]", denies, prefix + "4"},
		"broken":     {"variables: [{name: size, expression: 'object.spec.nothing'}], validations: [{expression: 'variables.size == 1'}]", denies, prefix + "expression 'variables.size == 1' resulted in error: composited variable \"size\" fails to evaluate: no such key: nothing"},
		"ignored":    {"failurePolicy: Ignore, validations: [{expression: 'object.spec.nothing == 1'}]", denies, ""},
		"error":      {"validations: [{expression: 'object.spec.nothing == 1'}]", denies, prefix + "expression 'object.spec.nothing == 1' resulted in error: no such key: nothing"},
		"compile":    {"validations: [{expression: 'object.'}]", denies, prefix + "compilation error: compilation failed: ERROR: <input>:1:8: Syntax error"},
		"type":       {"validations: [{expression: '1 + 1'}]", denies, prefix + "compilation error: must evaluate to bool but got int"},
		"condition":  {"matchConditions: [{name: c, expression: 'request.userInfo.username != \"jane\"'}], validations: [{expression: 'false'}]", denies, ""},
		"unsure":     {"matchConditions: [{name: c, expression: 'object.x'}, {name: d, expression: 'true'}], validations: [{expression: 'true'}]", denies, "compilation error: must evaluate to bool but got dyn"},
		"namespace":  {"validations: [{expression: 'namespaceObject.metadata.labels[\"tier\"] == \"back\"'}]", denies, prefix + "failed expression"},
		"authorizer": {"validations: [{expression: 'authorizer.requestResource.check(\"break\").allowed() && !authorizer.requestResource.check(\"bend\").allowed()'}]", denies, ""},
		"request":    {"validations: [{expression: 'request.operation == \"CREATE\" && request.kind.kind == \"Pod\" && request.resource.resource == \"pods\" && request.namespace == \"web\" && !request.dryRun && \"dev\" in request.userInfo.groups && !has(request.subResource) && oldObject == null && object.kind == \"Pod\"'}]", denies, ""},
		"selector":   {"validations: [{expression: 'false'}]", denies + ", matchResources: {namespaceSelector: {matchLabels: {tier: back}}}", ""},
		"selected":   {"validations: [{expression: 'false'}]", denies + ", matchResources: {namespaceSelector: {matchLabels: {tier: front}}, objectSelector: {matchLabels: {app: web}}}", "failed expression: false"},
		"excluded":   {"validations: [{expression: 'false'}]", denies + ", matchResources: {excludeResourceRules: [{apiGroups: ['*'], apiVersions: ['*'], operations: ['*'], resources: ['*'], resourceNames: [nginx]}]}", ""},
		"params":     {"paramKind: {apiVersion: v1, kind: ConfigMap}, validations: [{expression: 'object.spec.containers.size() < int(params.data.most)'}]", denies + ", paramRef: {name: limits, parameterNotFoundAction: Deny}", ""},
		"stricter":   {"paramKind: {apiVersion: v1, kind: ConfigMap}, validations: [{expression: 'object.spec.containers.size() < int(params.data.most)'}]", denies + ", paramRef: {selector: {}, parameterNotFoundAction: Deny}", "failed expression"},
		"not found":  {"paramKind: {apiVersion: v1, kind: ConfigMap}, validations: [{expression: 'false'}]", denies + ", paramRef: {name: none, parameterNotFoundAction: Deny}", prefix + "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction"},
		"allowed":    {"paramKind: {apiVersion: v1, kind: ConfigMap}, validations: [{expression: 'false'}]", denies + ", paramRef: {name: none, parameterNotFoundAction: Allow}", ""},
		"no params":  {"paramKind: {apiVersion: v1, kind: ConfigMap}, validations: [{expression: 'params == null'}]", denies, ""},
		"no kind":    {"paramKind: {apiVersion: a.b/v1, kind: Foo}, validations: [{expression: 'true'}]", denies, `pods "nginx" is forbidden: ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: failed to find resource referenced by paramKind: 'a.b/v1, Kind=Foo'`},
		"annotation": {"auditAnnotations: [{key: k, valueExpression: 'object.x'}], validations: [{expression: 'true'}]", denies, "compilation error: must evaluate to one of [string null_type] but got dyn"},
		"too long":   {"validations: [{expression: 'authorizer.requestResource.check(\"break\").allowed() && authorizer.requestResource.check(\"break\").allowed() && authorizer.requestResource.check(\"break\").allowed()'}]", denies, "resulted in error: operation cancelled: actual cost limit exceeded"},
		"too much":   {"validations: [" + strings.Repeat("{expression: 'authorizer.requestResource.check(\"break\").allowed() && authorizer.requestResource.check(\"break\").allowed()'}, ", 15) + "]", denies, prefix + "validation failed due to running out of cost budget, no further validation rules will be run"},
	} {
		policies.set(policyOf(test.policy))
		bindings.set(bindingOf(test.binding))
		synctest.Wait()
		err := p.Validate(t.Context(), request(&seen{}))
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v\nwant %q", name, err, test.want)
		}
	}
}

// TestActions: what is denied, warned of and audited, and the status.
func TestActions(t *testing.T) {
	const spec = "auditAnnotations: [{key: node, valueExpression: '\"on \" + object.metadata.name'}, {key: none, valueExpression: 'null'}], validations: [{expression: 'true'}, {expression: 'false', message: never, reason: Forbidden}]"
	p := start(t, []*registration.ValidatingAdmissionPolicy{policyOf(spec)}, []*registration.ValidatingAdmissionPolicyBinding{bindingOf("validationActions: [Warn, Audit]")})
	var s seen
	if err := p.Validate(t.Context(), request(&s)); err != nil {
		t.Error(err)
	}
	if len(s.warnings) != 1 || s.warnings[0] != "Validation failed for ValidatingAdmissionPolicy 'p' with binding 'b': never" {
		t.Error(s.warnings)
	}
	if want := []string{`validation.policy.admission.k8s.io/validation_failure=[{"message":"never","policy":"p","binding":"b","expressionIndex":1,"validationActions":["Warn","Audit"]}]`, "p/node=on nginx"}; !slices.Equal(s.annotations, want) {
		t.Error(s.annotations)
	}
	p = start(t, []*registration.ValidatingAdmissionPolicy{policyOf(spec)}, []*registration.ValidatingAdmissionPolicyBinding{bindingOf(denies)})
	var status *apierrors.StatusError
	if err := p.Validate(t.Context(), request(&s)); !errors.As(err, &status) || status.ErrStatus.Code != http.StatusForbidden || status.ErrStatus.Reason != metav1.StatusReasonForbidden || len(status.ErrStatus.Details.Causes) != 1 {
		t.Error(err)
	}
	r := request(&s)
	r.Kind = admission.GroupVersionKind{Group: registration.GroupName, Version: "v1", Kind: "ValidatingAdmissionPolicy"}
	if err := p.Validate(t.Context(), r); err != nil {
		t.Error(err)
	}
	r = request(&s)
	if r.Namespace = "gone"; !apierrors.IsNotFound(p.Validate(t.Context(), r)) {
		t.Error("a namespace that is not there is no error")
	}
}

// TestChanges: a policy applies when it has been changed or bound.
func TestChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		policies := newCache(policyOf("validations: [{expression: 'false'}]"))
		bindings := newCache[*registration.ValidatingAdmissionPolicyBinding]()
		p := run(t, policies, bindings)
		r := request(&seen{})
		if err := p.Validate(t.Context(), r); err != nil {
			t.Errorf("without a binding: %v", err)
		}
		bindings.set(bindingOf(denies))
		synctest.Wait()
		if err := p.Validate(t.Context(), r); err == nil {
			t.Error("it is not denied")
		}
		policies.set(policyOf("validations: [{expression: 'true'}]"))
		synctest.Wait()
		if err := p.Validate(t.Context(), r); err != nil {
			t.Error(err)
		}
	})
}

// TestNotReady: requests wait for the first policies.
func TestNotReady(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, err := policy.New(policy.Config{
			Policies: &cache[*registration.ValidatingAdmissionPolicy]{}, Bindings: &cache[*registration.ValidatingAdmissionPolicyBinding]{},
			Namespaces: namespaces{}, Params: params{}, Lookup: func(context.Context, string) (*corev1.Namespace, error) { return nil, nil },
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := p.Validate(t.Context(), request(&seen{})); err == nil || !strings.Contains(err.Error(), "not yet ready to handle request") {
			t.Error(err)
		}
		if _, err := policy.New(policy.Config{}); err == nil {
			t.Error("nothing is required")
		}
	})
}

// TestCheck refuses policies that do not compile.
func TestCheck(t *testing.T) {
	p := start(t, nil, nil)
	r := request(&seen{})
	r.Kind = admission.GroupVersionKind{Group: registration.GroupName, Kind: "ValidatingAdmissionPolicy"}
	for spec, want := range map[string]string{
		"validations: [{expression: 'true', messageExpression: '\"a\"'}]": "",
		"validations: [{expression: 'objec.x'}]":                          `spec.validations[0].expression: Invalid value: "objec.x": compilation failed: ERROR: <input>:1:1: undeclared reference to 'objec'`,
		"validations: [{expression: '1'}]":                                "spec.validations[0].expression: Invalid value: \"1\": must evaluate to bool but got int",
		"validations: [{expression: 'params == null'}]":                   "undeclared reference to 'params'",
		"validations: [{expression: 'variables.a'}]":                      "undefined field 'a'",
		"validations: [{expression: 'true', messageExpression: '1'}]":     "spec.validations[0].messageExpression: Invalid value: \"1\": must evaluate to string but got int",
		"matchConditions: [{name: a, expression: 'variables.a'}]":         "spec.matchConditions[0].expression",
		"variables: [{name: a, expression: '1 +'}]":                       "spec.variables[0].expression",
		"auditAnnotations: [{key: a, valueExpression: '1'}]":              "spec.auditAnnotations[0].valueExpression: Invalid value: \"1\": must evaluate to one of [string null_type] but got int",
	} {
		r.Object = policyOf(spec)
		if err := p.Check(t.Context(), r); (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v\nwant %q", spec, err, want)
		}
		if r.OldObject = r.Object; p.Check(t.Context(), r) != nil {
			t.Errorf("%s: it may not stay", spec)
		}
		r.OldObject = nil
	}
}

// TestTogether: many requests are validated while policies change.
func TestTogether(t *testing.T) {
	policies := newCache(policyOf("variables: [{name: size, expression: '1'}], validations: [{expression: 'variables.size == 2'}]"))
	p := run(t, policies, newCache(bindingOf(denies)))
	var work sync.WaitGroup
	for range 4 {
		work.Go(func() {
			for range 50 {
				if p.Validate(t.Context(), request(&seen{})) == nil {
					t.Error("it is not denied")
					return
				}
			}
		})
	}
	for range 20 {
		policies.set(policyOf("validations: [{expression: 'false'}]"))
	}
	work.Wait()
}
