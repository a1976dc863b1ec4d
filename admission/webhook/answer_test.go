package webhook_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/webhook"
	admissionapi "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestDenied: a refusal reaches the client in the webhook's words.
func TestDenied(t *testing.T) {
	var result atomic.Pointer[metav1.Status]
	hook := serve(t, func(*admissionapi.AdmissionRequest) *admissionapi.AdmissionResponse {
		return &admissionapi.AdmissionResponse{Result: result.Load(), Warnings: []string{`look "out"`}, AuditAnnotations: map[string]string{"why": "so"}}
	})
	for _, mutates := range []bool{true, false} {
		w := begin(t, nil)
		w.configure("strict", mutates, hook.at(), nil)
		for _, c := range []struct {
			result  *metav1.Status
			code    int
			message string
		}{
			{nil, 400, `admission webhook "strict.example.com" denied the request without explanation`},
			{&metav1.Status{Message: "no"}, 400, `admission webhook "strict.example.com" denied the request: no`},
			{&metav1.Status{Message: "no", Code: 200, Status: "Success"}, 400, `admission webhook "strict.example.com" denied the request: no`},
			{&metav1.Status{Reason: "Teapot", Code: 418}, 418, `admission webhook "strict.example.com" denied the request: Teapot`},
			{&metav1.Status{Message: "x", Code: 599}, 599, `admission webhook "strict.example.com" denied the request: x`},
			{&metav1.Status{Message: "x", Code: 2000}, 400, `admission webhook "strict.example.com" denied the request: x`},
			{&metav1.Status{Message: "x", Code: 403, Reason: metav1.StatusReasonForbidden, Details: &metav1.StatusDetails{
				Causes: []metav1.StatusCause{{Type: "FieldValueInvalid", Message: "bad", Field: "data"}}}}, 403, `denied the request: x`},
		} {
			result.Store(c.result)
			a := w.make("a", "")
			w.check(a, c.code, c.message)
			if a.body["status"] != "Failure" {
				t.Errorf("status %v", a.body["status"])
			}
			if c.result != nil && c.result.Details != nil && !strings.Contains(fmt.Sprint(a.body["details"]), "field:data message:bad reason:FieldValueInvalid") {
				t.Errorf("details %v", a.body["details"])
			}
			if len(a.warnings) != 1 || a.warnings[0] != `299 - "look \"out\""` {
				t.Errorf("warnings %q", a.warnings)
			}
			if got := w.audit.last(t)["strict.example.com/why"]; got != "so" {
				t.Errorf("annotation %q", got)
			}
		}
	}
}

// TestTooMuch: what a webhook says beside its answer is bounded.
func TestTooMuch(t *testing.T) {
	hook := serve(t, func(*admissionapi.AdmissionRequest) *admissionapi.AdmissionResponse {
		return &admissionapi.AdmissionResponse{Allowed: true, Warnings: []string{"a\r\nSet-Cookie: b", strings.Repeat("x", 4000), strings.Repeat("y", 1000)},
			AuditAnnotations: map[string]string{"good": "1", "no/name": "2", "": "3", "a b": "4"}}
	})
	w := begin(t, nil)
	w.configure("loud", false, hook.at(), nil)
	a := w.make("a", "")
	w.check(a, 201, "")
	if len(a.warnings) != 2 || a.warnings[0] != `299 - "a  Set-Cookie: b"` {
		t.Errorf("warnings %.60q", a.warnings)
	}
	if got := fmt.Sprint(w.audit.last(t)); got != "map[loud.example.com/good:1]" {
		t.Errorf("annotations %s", got)
	}
}

// TestMutate: patches are applied one after another, then the object is completed.
func TestMutate(t *testing.T) {
	w := begin(t, nil)
	first := serve(t, patchWith(`[{"op":"add","path":"/metadata/labels","value":{"first":"1"}}]`))
	second := serve(t, patchWith(`[{"op":"test","path":"/metadata/labels/first","value":"1"},{"op":"add","path":"/metadata/labels/second","value":"2"}]`))
	third := serve(t, allow)
	pods := func(h *registration.MutatingWebhook) {
		h.Rules = []registration.RuleWithOperations{ruleOf("CREATE,DELETE", "", "v1", "pods")}
	}
	// Created in another order than they are asked in.
	w.configure("c-third", true, third.at(), pods)
	w.configure("b-second", true, second.at(), pods)
	w.configure("a-first", true, first.at(), pods)
	const pods8 = "/api/v1/namespaces/default/pods"
	a := w.do(http.MethodPost, pods8, `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"nginx"}]}}`)
	w.check(a, 201, "")
	if got := fmt.Sprint(a.field("metadata.labels")); got != "map[first:1 second:2]" {
		t.Errorf("labels %s", got)
	}
	if got := string(third.calls()[0].Object.Raw); !strings.Contains(got, `"labels":{"first":"1","second":"2"}`) {
		t.Errorf("the last was asked about %s", got)
	}
	annotations := w.audit.last(t)
	for key, want := range map[string]string{
		"mutation.webhook.admission.k8s.io/round_0_index_0": `{"configuration":"a-first","webhook":"a-first.example.com","mutated":true}`,
		"mutation.webhook.admission.k8s.io/round_0_index_2": `{"configuration":"c-third","webhook":"c-third.example.com","mutated":false}`,
	} {
		if annotations[key] != want {
			t.Errorf("%s is %s, want %s", key, annotations[key], want)
		}
	}
	if _, again := annotations["mutation.webhook.admission.k8s.io/round_1_index_0"]; again {
		t.Error("a webhook was asked again that does not want it")
	}
	for key := range annotations {
		if strings.HasPrefix(key, "patch.webhook") {
			t.Error("a patch is in an event without bodies")
		}
	}
	w.audit.bodies.Store(true)
	w.check(w.do(http.MethodPost, pods8, `{"metadata":{"name":"q"},"spec":{"containers":[{"name":"c","image":"nginx"}]}}`), 201, "")
	const want = `{"configuration":"b-second","webhook":"b-second.example.com","patch":[{"op":"test","path":"/metadata/labels/first","value":"1"},{"op":"add","path":"/metadata/labels/second","value":"2"}],"patchType":"JSONPatch"}`
	annotations = w.audit.last(t)
	if got := annotations["patch.webhook.admission.k8s.io/round_0_index_1"]; got != want {
		t.Errorf("the patch is %s", got)
	}
	if got, ok := annotations["patch.webhook.admission.k8s.io/round_0_index_2"]; ok {
		t.Errorf("the patch of who has none is %s", got)
	}
	// There is nothing to change in a deletion.
	w.check(w.do(http.MethodDelete, pods8+"/p", ""), 500, `admission webhook "a-first.example.com" attempted to modify the object, which is not supported for this operation`)
}

// TestDefaulted: what a webhook adds is completed like what a client sends.
func TestDefaulted(t *testing.T) {
	w := begin(t, nil)
	hook := serve(t, patchWith(`[{"op":"add","path":"/spec/containers/-","value":{"name":"side","image":"envoy"}}]`))
	w.configure("inject", true, hook.at(), func(h *registration.MutatingWebhook) {
		h.Rules = []registration.RuleWithOperations{ruleOf("CREATE", "", "v1", "pods")}
	})
	a := w.do(http.MethodPost, "/api/v1/namespaces/default/pods", `{"metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"nginx"}]}}`)
	w.check(a, 201, "")
	containers, _ := a.field("spec.containers").([]any)
	if len(containers) != 2 || containers[1].(map[string]any)["terminationMessagePath"] != "/dev/termination-log" {
		t.Errorf("containers %v", containers)
	}
}

// TestPatches: a patch that does not fit is an error, whatever the failure policy;
// one that is no patch is a failure of the webhook.
func TestPatches(t *testing.T) {
	w := begin(t, nil)
	var patch atomic.Pointer[string]
	hook := serve(t, func(r *admissionapi.AdmissionRequest) *admissionapi.AdmissionResponse {
		return patchWith(*patch.Load())(r)
	})
	ignore := registration.Ignore
	w.configure("patching", true, hook.at(), func(h *registration.MutatingWebhook) { h.FailurePolicy = &ignore })
	copies := `{"op":"add","path":"/data","value":{"a":"` + strings.Repeat("x", 1<<20) + `"}}`
	for i := range 10 {
		copies += fmt.Sprintf(`,{"op":"copy","from":"/data","path":"/data/x%d"}`, i)
	}
	for i, c := range []struct {
		patch   string
		code    int
		message string
	}{
		{`[]`, 201, ""},
		{`[{"op":"add","path":"/data","value":{"k":"v"}}]`, 201, ""},
		{`{"not": "a patch"}`, 201, ""}, // ignored
		{`[{"op":"remove","path":"/data/nothing"}]`, 500, "Internal error occurred: "},
		{`[{"op":"test","path":"/metadata/name","value":"z"}]`, 500, "testing value /metadata/name failed"},
		{`[{"op":"add","path":"/kind","value":"Secret"}]`, 500, "makes a /v1, Kind=Secret of a /v1, Kind=ConfigMap"},
		{`[{"op":"add","path":"/metadata/namespace","value":"kube-system"}]`, 400, "the namespace of the provided object does not match the namespace sent on the request"},
		{`[{"op":"add","path":"/data","value":7}]`, 500, "decode the patched object"},
		{`[{"op":"add","path":"/metadata/labels","value":{"a":"/"}}]`, 422, "metadata.labels: Invalid value"},
		{`[{"op":"add","path":"/metadata/uid","value":"mine"},{"op":"add","path":"/metadata/creationTimestamp","value":"2001-01-01T00:00:00Z"}]`, 201, ""},
		{`[{"op":"add","path":"/metadata/resourceVersion","value":"9"}]`, 400, "resourceVersion should not be set on objects to be created"},
		{`[` + copies + `]`, 500, "larger than"},
		{`[` + strings.TrimSuffix(strings.Repeat(`{"op":"test","path":"/kind","value":"ConfigMap"},`, 10001), ",") + `]`, 500, "10001 operations"},
	} {
		patch.Store(&c.patch)
		name := fmt.Sprint("m", i)
		a := w.make(name, "")
		if a.code != c.code || c.code != 201 && !strings.Contains(a.message(), c.message) {
			t.Errorf("%.80s: %d %.200s; want %d %s", c.patch, a.code, a.message(), c.code, c.message)
		}
		if a.code == 201 && (a.field("metadata.uid") == "mine" || a.field("metadata.creationTimestamp") == "2001-01-01T00:00:00Z") {
			t.Error("a webhook has chosen the uid or the creationTimestamp")
		}
	}
}

// TestReinvocation: webhooks with reinvocationPolicy IfNeeded see later changes of other webhooks;
// the rest do not.
func TestReinvocation(t *testing.T) {
	again := &counting{}
	w := begin(t, func(c *webhook.Config) { c.Again = again })
	ifNeeded := registration.IfNeededReinvocationPolicy
	hooks := map[string]*hookServer{
		"a-again": serve(t, func(r *admissionapi.AdmissionRequest) *admissionapi.AdmissionResponse { // changes once what it has not seen
			if strings.Contains(string(r.Object.Raw), `"late"`) && !strings.Contains(string(r.Object.Raw), `"again"`) {
				return patchWith(`[{"op":"add","path":"/data/again","value":"yes"}]`)(r)
			}
			return allow(r)
		}),
		"b-never": serve(t, allow),
		"c-change": serve(t, func(r *admissionapi.AdmissionRequest) *admissionapi.AdmissionResponse {
			if r.Name == "quiet" {
				return allow(r)
			}
			return patchWith(`[{"op":"add","path":"/data","value":{"late":"yes"}}]`)(r)
		}),
		"d-after": serve(t, allow),
	}
	for name, h := range hooks {
		w.configure(name, true, h.at(), func(m *registration.MutatingWebhook) {
			if name == "a-again" || name == "d-after" {
				m.ReinvocationPolicy = &ifNeeded
			}
		})
	}
	w.check(w.make("quiet", ""), 201, "")
	if again.n.Load() != 0 {
		t.Error("the other plugins ran again for no change")
	}
	w.audit.bodies.Store(true)
	a := w.make("loud", "")
	w.check(a, 201, "")
	if got := fmt.Sprint(a.field("data")); got != "map[again:yes late:yes]" {
		t.Errorf("data %s", got)
	}
	// d-after has seen what c-change has made; then a-again changes it once more.
	for name, want := range map[string]int{"a-again": 3, "b-never": 2, "c-change": 2, "d-after": 3} {
		if got := len(hooks[name].calls()); got != want {
			t.Errorf("%s was asked %d times, want %d", name, got, want)
		}
	}
	if got := w.audit.last(t)["mutation.webhook.admission.k8s.io/round_1_index_0"]; !strings.Contains(got, `"mutated":true`) {
		t.Errorf("second round: %q", got)
	}
	if got := w.audit.last(t)["patch.webhook.admission.k8s.io/round_1_index_0"]; !strings.Contains(got, `"path":"/data/again"`) {
		t.Errorf("second round's patch: %q", got)
	}
	if again.n.Load() != 1 {
		t.Errorf("the other plugins ran again %d times", again.n.Load())
	}
	// What they change, webhooks see again.
	again.label = true
	before := len(hooks["d-after"].calls())
	w.check(w.make("labelled", ""), 201, "")
	last := hooks["d-after"].calls()[before:]
	if len(last) != 2 || !strings.Contains(string(last[1].Object.Raw), `"plugin":"again"`) {
		t.Errorf("asked %d times about what the plugins have changed", len(last))
	}
}

// counting is a plugin before the webhooks.
type counting struct {
	n     atomic.Int32
	label bool
}

func (c *counting) Mutate(_ context.Context, r *admission.Request) error {
	c.n.Add(1)
	if c.label {
		r.Object.(*corev1.ConfigMap).Labels = map[string]string{"plugin": "again"}
	}
	return nil
}

// TestDryRun: a webhook that has effects is not asked, and not passed over.
func TestDryRun(t *testing.T) {
	for _, mutates := range []bool{true, false} {
		w, hook := begin(t, nil), serve(t, allow)
		onDryRun, ignore := registration.SideEffectClassNoneOnDryRun, registration.Ignore
		w.configure("pure", mutates, hook.at(), func(h *registration.MutatingWebhook) { h.SideEffects = &onDryRun })
		const dry = configMaps + "?dryRun=All"
		w.check(w.do(http.MethodPost, dry, `{"metadata":{"name":"a"}}`), 201, "")
		if calls := hook.calls(); len(calls) != 1 || !*calls[0].DryRun {
			t.Errorf("a webhook without effects: %d calls", len(calls))
		}
		// Only what an older server has stored has effects; the API refuses them now.
		effects := serve(t, allow)
		some := registration.SideEffectClassSome
		r := &admission.Request{Operation: admission.Create, DryRun: true, Object: &corev1.ConfigMap{}, Name: "a", Namespace: "default",
			Resource: admission.GroupVersionResource{Version: "v1", Resource: "configmaps"}, Kind: admission.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}}
		for class, want := range map[*registration.SideEffectClass]string{
			&some: `admission webhook "some.example.com" does not support dry run`,
			nil:   "<nil>", // a failure, which is ignored
		} {
			p := direct(t, mutates, registration.MutatingWebhook{Name: "some.example.com", ClientConfig: effects.at(), SideEffects: class, FailurePolicy: &ignore,
				AdmissionReviewVersions: []string{"v1"}, Rules: []registration.RuleWithOperations{ruleOf("*", "*", "*", "*")}})
			err := p.Mutate(t.Context(), r)
			if err == nil {
				err = p.Validate(t.Context(), r)
			}
			if fmt.Sprint(err) != want {
				t.Errorf("dry run: %v, want %s", err, want)
			}
		}
		if n := len(effects.calls()); n != 0 {
			t.Errorf("a webhook with effects was asked %d times in a dry run", n)
		}
	}
}

// TestParallel: validating webhooks are asked at once, and the first refusal in
// order is the answer.
func TestParallel(t *testing.T) {
	w := begin(t, nil)
	const n = 5
	var asked atomic.Int32
	all := make(chan struct{})
	for i := range n {
		hook := serve(t, func(*admissionapi.AdmissionRequest) *admissionapi.AdmissionResponse {
			if asked.Add(1) == n {
				close(all)
			}
			select { // no webhook answers before all are called
			case <-all:
			case <-time.After(20 * time.Second):
			}
			return &admissionapi.AdmissionResponse{Allowed: i != 2 && i != 3, Warnings: []string{fmt.Sprint("from ", i)}}
		})
		w.configure(fmt.Sprint("v", i), false, hook.at(), nil)
	}
	a := w.make("a", "")
	w.check(a, 400, `admission webhook "v2.example.com" denied the request without explanation`)
	if got := fmt.Sprint(a.warnings); got != `[299 - "from 0" 299 - "from 1" 299 - "from 2" 299 - "from 3" 299 - "from 4"]` {
		t.Errorf("warnings %s", got)
	}
	select {
	case <-all:
	default:
		t.Error("not all were asked at once")
	}
}

// TestConditionsFail: what conditions do that cannot be evaluated.
func TestConditionsFail(t *testing.T) {
	w, hook := begin(t, nil), serve(t, deny)
	failing := []registration.MatchCondition{{Name: "x", Expression: "object.data.nothing == 'x'"}}
	ignore := registration.Ignore
	w.configure("ignored", false, hook.at(), func(h *registration.MutatingWebhook) { h.MatchConditions, h.FailurePolicy = failing, &ignore })
	w.check(w.make("a", ""), 201, "")
	w.configure("failing", false, hook.at(), func(h *registration.MutatingWebhook) { h.MatchConditions = failing })
	w.check(w.make("b", ""), 403, `configmaps "b" is forbidden: expression 'object.data.nothing == 'x'' resulted in error: no such key: data`)
	if n := len(hook.calls()); n != 0 {
		t.Errorf("asked %d times", n)
	}
}

// TestCheckConditions: what does not compile is refused when it is written.
func TestCheckConditions(t *testing.T) {
	w := begin(t, nil)
	const path = "/apis/admissionregistration.k8s.io/v1/"
	for _, kind := range []string{"mutatingwebhookconfigurations", "validatingwebhookconfigurations"} {
		body := func(expression string) string {
			return `{"metadata":{"name":"x"},"webhooks":[{"name":"a.example.com","sideEffects":"None","admissionReviewVersions":["v1"],` +
				`"clientConfig":{"url":"https://127.0.0.1:1"},"matchConditions":[{"name":"one","expression":"true"},{"name":"two","expression":"` + expression + `"}]}]}`
		}
		a := w.do(http.MethodPost, path+kind, body("1 + 1"))
		w.check(a, 422, `webhooks[0].matchConditions[1].expression: Invalid value: "1 + 1": must evaluate to bool but got int`)
		w.check(w.do(http.MethodPost, path+kind, body("object.x ==")), 422, "compilation failed: ERROR: <input>:1:12: Syntax error")
		w.check(w.do(http.MethodPost, path+kind, body("object.x == 1")), 201, "")
	}
}
