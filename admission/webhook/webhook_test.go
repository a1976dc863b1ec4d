package webhook_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"reflect"
	"strings"
	"testing"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/admission/webhook"
	admissionapi "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func Example() {
	var namespaces nothing
	hooks, err := webhook.New(webhook.Config{Namespaces: namespaces, Lookup: namespaces.lookup})
	if err != nil {
		fmt.Println(err)
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- hooks.Run(ctx) }()
	<-hooks.Synced()
	chain := admission.Chain{Mutators: []admission.Mutator{hooks}, Validators: []admission.Validator{hooks}}
	r := &admission.Request{Operation: admission.Create, Resource: admission.GroupVersionResource{Version: "v1", Resource: "pods"}}
	fmt.Println(chain.Mutate(ctx, r), chain.Validate(ctx, r))
	cancel()
	fmt.Println(<-done)
	// Output:
	// <nil> <nil>
	// <nil>
}

// nothing is a local copy without namespaces.
type nothing struct{}

func (nothing) Get(string) (*corev1.Namespace, bool) { return nil, false }
func (nothing) lookup(_ context.Context, name string) (*corev1.Namespace, error) {
	return nil, fmt.Errorf("no namespace %s", name)
}

// TestReview: what a webhook is sent, to the letter.
func TestReview(t *testing.T) {
	w, hook := begin(t, nil), serve(t, allow)
	w.configure("all", false, hook.at(), func(h *registration.MutatingWebhook) {
		h.Rules = append(h.Rules, ruleOf("CREATE", "", "v1", "namespaces"))
	})
	w.check(w.do(http.MethodPost, configMaps+"?fieldManager=me&dryRun=All", `{"metadata":{"name":"a"},"data":{"k":"v"}}`), 201, "")
	w.check(w.do(http.MethodPost, configMaps, `{"metadata":{"name":"a"},"data":{"k":"v"}}`), 201, "")
	w.check(w.do(http.MethodPatch, configMaps+"/a", `{"data":{"k":"w"}}`), 200, "")
	w.check(w.do(http.MethodDelete, configMaps+"/a", `{"gracePeriodSeconds":0}`), 200, "")
	w.check(w.do(http.MethodPost, "/api/v1/namespaces", `{"metadata":{"name":"n"}}`), 201, "")
	calls := hook.calls()
	if len(calls) != 5 {
		t.Fatalf("%d calls", len(calls))
	}
	if got := hook.queries[0]; got != "timeout=10s" {
		t.Errorf("query %q", got)
	}
	for i, want := range []struct {
		operation         string
		object, old, rest string
	}{
		{"CREATE", "v", "", `"name":"a","namespace":"default","operation":"CREATE","userInfo":{"username":"admin","groups":["system:masters","system:authenticated"]},"dryRun":true,"options":{"kind":"CreateOptions","apiVersion":"meta.k8s.io/v1","dryRun":["All"],"fieldManager":"me"}`},
		{"CREATE", "v", "", `"dryRun":false,"options":{"kind":"CreateOptions","apiVersion":"meta.k8s.io/v1"}`},
		{"UPDATE", "w", "v", `"options":{"kind":"UpdateOptions","apiVersion":"meta.k8s.io/v1"}`},
		{"DELETE", "", "w", `"options":{"kind":"DeleteOptions","apiVersion":"meta.k8s.io/v1","gracePeriodSeconds":0}`},
	} {
		checkReview(t, hook.raw[i], want.operation, want.object, want.old, want.rest)
	}
	if got := calls[4]; got.Namespace != "n" || got.Name != "n" || got.Kind.Kind != "Namespace" {
		t.Errorf("a namespace is reviewed as %+v", got)
	}
	if calls[0].UID == calls[1].UID || calls[0].UID == "" {
		t.Error("reviews do not differ in their uid")
	}
	hook.mu.Lock()
	defer hook.mu.Unlock()
	if len(hook.peers) != 1 {
		t.Errorf("%d connections for reviews one after another", len(hook.peers))
	}
}

func checkReview(t *testing.T, raw []byte, operation, object, old, rest string) {
	t.Helper()
	const kinds = `"kind":{"group":"","version":"v1","kind":"ConfigMap"},"resource":{"group":"","version":"v1","resource":"configmaps"},` +
		`"requestKind":{"group":"","version":"v1","kind":"ConfigMap"},"requestResource":{"group":"","version":"v1","resource":"configmaps"}`
	text := string(raw)
	for _, want := range []string{`{"kind":"AdmissionReview","apiVersion":"admission.k8s.io/v1","request":{"uid":"`, kinds, `"operation":"` + operation + `"`} {
		if !strings.Contains(text, want) {
			t.Errorf("review %s\nlacks %s", text, want)
		}
	}
	// The order of options' fields is that of the types.
	var got, wanted struct {
		Request map[string]any `json:"request"`
	}
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(`{"request":{`+rest+`}}`), &wanted); err != nil {
		t.Fatal(err)
	}
	for key, want := range wanted.Request {
		if !reflect.DeepEqual(got.Request[key], want) {
			t.Errorf("%s of %s is %v, want %v", key, operation, got.Request[key], want)
		}
	}
	for name, want := range map[string]string{"object": object, "oldObject": old} {
		value, there := got.Request[name]
		if !there {
			t.Errorf("%s is left out of %s", name, operation)
		}
		m, _ := value.(map[string]any)
		if want == "" {
			if value != nil {
				t.Errorf("%s of %s is %v", name, operation, value)
			}
		} else if m["kind"] != "ConfigMap" || m["apiVersion"] != "v1" || m["data"].(map[string]any)["k"] != want {
			t.Errorf("%s of %s is %v", name, operation, m)
		}
	}
}

// TestMatch: whom a webhook is asked about.
func TestMatch(t *testing.T) {
	w := begin(t, nil)
	for _, n := range []string{`{"metadata":{"name":"default"}}`, `{"metadata":{"name":"team","labels":{"team":"yes"}}}`} {
		w.check(w.do(http.MethodPost, "/api/v1/namespaces", n), 201, "")
	}
	cluster, namespaced, exact := registration.ClusterScope, registration.NamespacedScope, registration.Exact
	hooks := map[string]*hookServer{}
	for name, change := range map[string]func(*registration.MutatingWebhook){
		"plain":   nil,
		"exact":   func(h *registration.MutatingWebhook) { h.MatchPolicy = &exact },
		"creates": func(h *registration.MutatingWebhook) { h.Rules[0].Operations = []registration.OperationType{"CREATE"} },
		"all":     func(h *registration.MutatingWebhook) { h.Rules[0] = ruleOf("*", "*", "*", "*/*") },
		"whole":   func(h *registration.MutatingWebhook) { h.Rules[0] = ruleOf("*", "*", "*", "*") },
		"cluster": func(h *registration.MutatingWebhook) {
			h.Rules[0] = ruleOf("*", "*", "*", "*")
			h.Rules[0].Scope = &cluster
		},
		"namespaced": func(h *registration.MutatingWebhook) {
			h.Rules[0] = ruleOf("*", "*", "*", "*")
			h.Rules[0].Scope = &namespaced
		},
		"scales":      func(h *registration.MutatingWebhook) { h.Rules[0] = ruleOf("*", "*", "*", "*/scale") },
		"deployments": func(h *registration.MutatingWebhook) { h.Rules[0] = ruleOf("*", "apps", "v1", "deployments/*") },
		"beta":        func(h *registration.MutatingWebhook) { h.Rules[0] = ruleOf("*", "apps", "v1beta1", "deployments") },
		"team": func(h *registration.MutatingWebhook) {
			h.Rules[0] = ruleOf("*", "", "v1", "configmaps,namespaces,nodes")
			h.NamespaceSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"team": "yes"}}
		},
		"web": func(h *registration.MutatingWebhook) {
			h.ObjectSelector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "web"}}
		},
		"conditions": func(h *registration.MutatingWebhook) {
			h.MatchConditions = []registration.MatchCondition{
				{Name: "a", Expression: "request.operation == 'UPDATE' && object.metadata.name == 'b'"},
				{Name: "b", Expression: "authorizer.group('').resource('pods').check('get').allowed()"}}
		},
	} {
		hooks[name] = serve(t, allow)
		w.configure(name, name == "web", hooks[name].at(), change)
	}
	const deployment = `{"metadata":{"name":"d"},"spec":{"selector":{"matchLabels":{"a":"b"}},"template":{"metadata":{"labels":{"a":"b"}},"spec":{"containers":[{"name":"c","image":"i"}]}}}}`
	const deployments = "/apis/apps/v1/namespaces/default/deployments"
	for _, step := range []struct {
		method, path, body string
		code               int
		asked              string
	}{
		{"POST", configMaps, `{"metadata":{"name":"a"}}`, 201, "all creates exact namespaced plain whole"},
		{"POST", configMaps, `{"metadata":{"name":"b","labels":{"app":"web"}}}`, 201, "all creates exact namespaced plain web whole"},
		{"PATCH", configMaps + "/b", `{"metadata":{"labels":{"app":null}}}`, 200, "all conditions exact namespaced plain web whole"},
		{"PATCH", configMaps + "/a", `{"data":{"x":"y"}}`, 200, "all exact namespaced plain whole"},
		{"DELETE", configMaps + "/a", ``, 200, "all exact namespaced plain whole"},
		{"POST", "/api/v1/namespaces/team/configmaps", `{"metadata":{"name":"a"}}`, 201, "all creates exact namespaced plain team whole"},
		{"POST", "/api/v1/namespaces", `{"metadata":{"name":"other"}}`, 201, "all cluster whole"},
		{"POST", "/api/v1/namespaces", `{"metadata":{"name":"third","labels":{"team":"yes"}}}`, 201, "all cluster team whole"},
		{"DELETE", "/api/v1/namespaces/team", ``, 200, "all cluster team whole"},
		{"POST", "/api/v1/nodes", `{"metadata":{"name":"n"}}`, 201, "all cluster team whole"},
		{"POST", deployments, deployment, 201, "all deployments namespaced whole"},
		{"PATCH", deployments + "/d/scale", `{"spec":{"replicas":2}}`, 200, "all deployments scales"},
		{"PATCH", deployments + "/d/status", `{"status":{"replicas":2}}`, 200, "all deployments"},
		// Reads, and the configurations themselves.
		{"GET", configMaps + "/b", ``, 200, ""},
		{"PATCH", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/all", `{"metadata":{"labels":{"a":"b"}}}`, 200, ""},
		{"DELETE", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/all", ``, 200, ""},
	} {
		before := map[string]int{}
		for name, h := range hooks {
			before[name] = len(h.calls())
		}
		if a := w.do(step.method, step.path, step.body); a.code != step.code {
			t.Fatalf("%s %s = %d %s, want %d", step.method, step.path, a.code, a.message(), step.code)
		}
		var asked []string
		for _, name := range []string{"all", "beta", "cluster", "conditions", "creates", "deployments", "exact", "namespaced", "plain", "scales", "team", "web", "whole"} {
			if n := len(hooks[name].calls()) - before[name]; n == 1 {
				asked = append(asked, name)
			} else if n > 1 {
				t.Errorf("%s %s: %s is asked %d times", step.method, step.path, name, n)
			}
		}
		if got := strings.Join(asked, " "); got != step.asked {
			t.Errorf("%s %s: asked %q, want %q", step.method, step.path, got, step.asked)
		}
	}
}

// TestService: a webhook that is a service is found by the resolver, must have a
// certificate for its name and may want one itself.
func TestService(t *testing.T) {
	hook := serveHTTP(t, func(w http.ResponseWriter, review *admissionapi.AdmissionReview, r *http.Request) {
		review.Response = &admissionapi.AdmissionResponse{UID: review.Request.UID, Allowed: true,
			AuditAnnotations: map[string]string{"seen": fmt.Sprint(r.URL.Path, " ", r.Host, " ", len(r.TLS.PeerCertificates))}}
		_ = json.NewEncoder(w).Encode(review)
	})
	own, _ := newCertificate(t)
	w := begin(t, func(c *webhook.Config) {
		c.Resolver = resolver(func(namespace, name string, port int32) (*url.URL, error) {
			if namespace != "system" || name != "hook" && name != "liar" || port != 8443 {
				return nil, fmt.Errorf("no service %s/%s:%d", namespace, name, port)
			}
			return url.Parse(hook.URL)
		})
		c.Certificate = func(server string) (*tls.Certificate, error) {
			if server != "hook.system.svc:8443" {
				return nil, nil
			}
			return &own, nil
		}
	})
	path, port := "/v1/check/", int32(8443) // asked for without the slash at its end
	service := func(name string) registration.WebhookClientConfig {
		return registration.WebhookClientConfig{CABundle: hook.ca, Service: &registration.ServiceReference{Namespace: "system", Name: name, Path: &path, Port: &port}}
	}
	w.configure("good", false, service("hook"), nil)
	w.check(w.make("a", ""), 201, "")
	if got := w.audit.last(t)["good.example.com/seen"]; got != "/v1/check hook.system.svc:8443 1" {
		t.Errorf("the webhook has seen %q", got)
	}
	w.configure("liar", false, service("liar"), nil)
	w.check(w.make("b", ""), 500, `failed calling webhook "liar.example.com": failed to call webhook: Post "https://liar.system.svc:8443/v1/check?timeout=10s": tls: failed to verify certificate: x509: certificate is valid for hook.system.svc, not liar.system.svc`)
	w.check(w.do("DELETE", "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/liar", ""), 200, "")
	eventually(t, func() bool { return !w.plugin.Knows("liar.example.com") })
	w.configure("gone", false, service("gone"), nil)
	w.check(w.make("b", ""), 500, "no service system/gone:8443")
}

type resolver func(namespace, name string, port int32) (*url.URL, error)

func (r resolver) Resolve(_ context.Context, namespace, name string, port int32) (*url.URL, error) {
	return r(namespace, name, port)
}
