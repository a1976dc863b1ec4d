package matchcel_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/webhook/matchcel"
	"github.com/planekit/planekit/authn/user"
	"github.com/planekit/planekit/authz"
	admissionapi "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	authentication "k8s.io/api/authentication/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
)

func Example() {
	conditions, err := matchcel.New(matchcel.Config{})
	if err != nil {
		fmt.Println(err)
		return
	}
	match, err := conditions.Compile([]registration.MatchCondition{
		{Name: "not-leases", Expression: "request.resource.resource != 'leases'"},
		{Name: "web", Expression: "object.metadata.labels.app == 'web'"},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	r, asked := podRequest()
	fmt.Println(match(context.Background(), r, asked))
	fmt.Println(conditions.Check(context.Background(), "object.metadata.name"))
	// Output:
	// true <nil>
	// must evaluate to bool but got dyn
}

// policy allows what it lists as "user verb group/resource/subresource ns/name" or "user verb path".
type policy map[string]bool

func (p policy) Authorize(_ context.Context, a authz.Attributes) (authz.Decision, string, error) {
	key := fmt.Sprintf("%s %s %s", a.User.Name, a.Verb, a.Path)
	if a.Path == "" {
		key = fmt.Sprintf("%s %s %s/%s/%s %s/%s", a.User.Name, a.Verb, a.Group, a.Resource, a.Subresource, a.Namespace, a.Name)
	}
	switch {
	case a.Verb == "explode":
		return authz.NoOpinion, "", errors.New("boom")
	case p[key]:
		return authz.Allow, "listed", nil
	}
	return authz.NoOpinion, "not listed: " + key, nil
}

func podRequest() (*admission.Request, *admissionapi.AdmissionRequest) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", Labels: map[string]string{"app": "web"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "nginx", LivenessProbe: &corev1.Probe{
			ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Port: intstr.FromInt32(80)}}}}}}}
	r := &admission.Request{
		Operation: admission.Create, Namespace: "default", Name: "web", Object: pod,
		Resource: admission.GroupVersionResource{Version: "v1", Resource: "pods"},
		Kind:     admission.GroupVersionKind{Version: "v1", Kind: "Pod"},
		User:     &user.Info{Name: "jane", Groups: []string{"dev"}, Extra: map[string][]string{"k": {"v"}}},
	}
	dry := false
	return r, &admissionapi.AdmissionRequest{
		Kind: metav1.GroupVersionKind(r.Kind), Resource: metav1.GroupVersionResource(r.Resource), Name: "web", Namespace: "default",
		Operation: admissionapi.Create, DryRun: &dry,
		UserInfo: authentication.UserInfo{Username: "jane", Groups: []string{"dev"}, Extra: map[string]authentication.ExtraValue{"k": {"v"}}},
		Options:  runtime.RawExtension{Raw: []byte(`{"kind":"CreateOptions","apiVersion":"meta.k8s.io/v1","fieldManager":"kubectl"}`)},
	}
}

// long is an expression of a given cost that is true.
func long(terms int) string {
	return "[" + strings.TrimSuffix(strings.Repeat("1,", terms), ",") + "].all(a, " + "a == 1)"
}

func TestMatch(t *testing.T) {
	may := policy{
		"jane create apps/deployments/ default/":             true,
		"jane get /healthz":                                  true,
		"jane breakglass /pods/ default/web":                 true,
		"system:serviceaccount:ns:robot list /pods/log ns/x": true,
	}
	conditions, err := matchcel.New(matchcel.Config{Authorizer: may})
	if err != nil {
		t.Fatal(err)
	}
	r, asked := podRequest()
	nested := "[1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25,26,27,28,29,30]"
	nest := func(levels int) string {
		e := "true"
		for i := range levels {
			e = fmt.Sprintf("%s.all(v%d, %s)", nested, i, e)
		}
		return e
	}
	for _, c := range []struct {
		expressions []string
		want        bool
		err         string
	}{
		{[]string{"object.metadata.name == 'web' && object.kind == 'Pod' && object.apiVersion == 'v1'"}, true, ""},
		{[]string{"oldObject == null"}, true, ""},
		{[]string{"object.spec.containers[0].livenessProbe.httpGet.port == 80"}, true, ""},
		{[]string{"has(object.spec.nodeName)"}, false, ""},
		{[]string{"request.userInfo.username == 'jane' && 'dev' in request.userInfo.groups && request.userInfo.extra['k'] == ['v']"}, true, ""},
		{[]string{"request.operation == 'CREATE' && request.resource.resource == 'pods' && request.kind.kind == 'Pod' && !request.dryRun"}, true, ""},
		{[]string{"request.options.fieldManager == 'kubectl'"}, true, ""},
		{[]string{"has(request.subResource)"}, false, ""},
		{[]string{"object.?metadata.?annotations.orValue({}).size() == 0"}, true, ""},
		{[]string{"'a-b'.split('-') == ['a', 'b'] && 'WEB'.lowerAscii() == object.metadata.name"}, true, ""},
		{[]string{"sets.contains(['a', 'b'], ['a'])"}, true, ""},
		{[]string{"[1, 2, 3].isSorted() && [1, 2].sum() == 3 && [3, 1].min() == 1 && [3, 1].max() == 3"}, true, ""},
		{[]string{"['b', 'a'].isSorted()"}, false, ""},
		{[]string{"['a', 'b', 'a'].indexOf('a') == 0 && ['a', 'b', 'a'].lastIndexOf('a') == 2 && ['a'].indexOf('z') == -1"}, true, ""},
		{[]string{"'abc 123'.find('[0-9]+') == '123' && '1 2 3'.findAll('[0-9]') == ['1','2','3'] && '1 2 3'.findAll('[0-9]', 2) == ['1','2']"}, true, ""},
		{[]string{"[duration('1s'), duration('2s')].sum() == duration('3s')"}, true, ""},
		// Authorization.
		{[]string{"authorizer.group('apps').resource('deployments').namespace('default').check('create').allowed()"}, true, ""},
		{[]string{"authorizer.group('apps').resource('deployments').namespace('other').check('create').allowed()"}, false, ""},
		{[]string{"authorizer.path('/healthz').check('get').reason() == 'listed'"}, true, ""},
		{[]string{"authorizer.requestResource.check('breakglass').allowed()"}, true, ""},
		{[]string{"authorizer.serviceAccount('ns', 'robot').group('').resource('pods').subresource('log').namespace('ns').name('x').check('list').allowed()"}, true, ""},
		{[]string{"authorizer.group('').resource('pods').labelSelector('a=b').fieldSelector('c=d').check('list').allowed()"}, false, ""},
		{[]string{"authorizer.path('/x').check('explode').errored() && authorizer.path('/x').check('explode').error() == 'boom'"}, true, ""},
		{[]string{"authorizer.path('').check('get').allowed()"}, false, "path must not be empty"},
		{[]string{"authorizer.group('').resource(' ').check('get').allowed()"}, false, "resource must not be empty"},
		{[]string{"authorizer.serviceAccount('N', 'x').path('/').check('get').allowed()"}, false, "Invalid service account namespace"},
		{[]string{"authorizer.serviceAccount('n', 'X').path('/').check('get').allowed()"}, false, "Invalid service account name"},
		// All must hold; one that is false decides, whatever else fails.
		{[]string{"true", "false"}, false, ""},
		{[]string{"object.nothing == 1", "false"}, false, ""},
		{[]string{"true", "object.nothing == 1"}, false, "expression 'object.nothing == 1' resulted in error: no such key: nothing"},
		{[]string{"object.a == 1", "object.b == 1"}, false, "no such key: b"},
		// Budget.
		{[]string{nest(2)}, true, ""},
		{[]string{nest(5)}, false, "cost limit exceeded"},
		{[]string{nest(3), nest(3), nest(3), long(10)}, true, ""},
		{slicesOf("authorizer.path('/healthz').check('get').allowed() && authorizer.path('/healthz').check('get').allowed()", 4), false, "out of cost budget"},
		{slicesOf("authorizer.path('/healthz').check('get').allowed() && authorizer.path('/healthz').check('get').allowed()", 3), true, ""},
	} {
		match, err := conditions.Compile(list(c.expressions...))
		if err != nil {
			t.Errorf("Compile(%q): %v", c.expressions, err)
			continue
		}
		got, err := match(t.Context(), r, asked)
		if got != c.want || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%q: %v, %v; want %v, %q", c.expressions, got, err, c.want, c.err)
		}
	}
}

func slicesOf(s string, n int) (all []string) {
	for range n {
		all = append(all, s)
	}
	return all
}

func list(expressions ...string) (all []registration.MatchCondition) {
	for i, e := range expressions {
		all = append(all, registration.MatchCondition{Name: fmt.Sprint("c", i), Expression: e})
	}
	return all
}

// TestCheck: what does not mean a bool is refused, with kube-apiserver's words.
func TestCheck(t *testing.T) {
	conditions, err := matchcel.New(matchcel.Config{})
	if err != nil {
		t.Fatal(err)
	}
	for expression, want := range map[string]string{
		"true":                         "",
		"object.x.y.z == oldObject":    "",
		"1 + 1":                        "must evaluate to bool but got int",
		"object.x":                     "must evaluate to bool but got dyn",
		"request.nothing == 1":         "compilation failed: ERROR: <input>:1:8: undefined field 'nothing'",
		"request.userInfo.name == 'x'": "undefined field 'name'",
		"namespaceObject == null":      "undeclared reference to 'namespaceObject'",
		"params == null":               "undeclared reference to 'params'",
		"object.":                      "Syntax error",
		"'a'.matches('(')":             "invalid matches argument",
		"'a'.find('(') == ''":          "error parsing regexp",
		"'a'.findAll('(', 1) == []":    "error parsing regexp",
		"[1, 'a'].size() == 2":         "expected type 'int' but found 'string'",
	} {
		err := conditions.Check(context.Background(), expression)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", expression, err, want)
		}
		if _, compiled := conditions.Compile(list("true", expression)); (compiled == nil) != (err == nil) {
			t.Errorf("%s: Compile says %v, Check says %v", expression, compiled, err)
		}
	}
}

// TestCancel: an evaluation ends with the request.
func TestCancel(t *testing.T) {
	conditions, err := matchcel.New(matchcel.Config{})
	if err != nil {
		t.Fatal(err)
	}
	match, err := conditions.Compile(list("[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, true)))"))
	if err != nil {
		t.Fatal(err)
	}
	r, asked := podRequest()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if ok, err := match(ctx, r, asked); ok || err == nil {
		t.Errorf("%v, %v in a request that has ended", ok, err)
	}
}

func FuzzCompile(f *testing.F) {
	conditions, err := matchcel.New(matchcel.Config{Authorizer: policy{}})
	if err != nil {
		f.Fatal(err)
	}
	for _, seed := range []string{"true", "object.metadata.name == 'x'", "authorizer.group('').resource('pods').check('get').allowed()",
		"[1].exists(a, a == 1)", "'a'.find('b') == ''", "has(request.name)", "((((", "\xff", "authorizer == authorizer", "type(authorizer) == type(authorizer)",
		"[authorizer.path('/')].indexOf(authorizer.path('/')) == 0", "string(authorizer) == ''"} {
		f.Add(seed)
	}
	r, asked := podRequest()
	f.Fuzz(func(t *testing.T, expression string) {
		checked := conditions.Check(context.Background(), expression)
		match, err := conditions.Compile(list(expression))
		if strings.TrimSpace(expression) == expression && (checked == nil) != (err == nil) {
			t.Fatalf("Check says %v, Compile says %v", checked, err)
		}
		if err != nil {
			return
		}
		if ok, err := match(t.Context(), r, asked); ok && err != nil {
			t.Errorf("true, and %v", err)
		}
	})
}
