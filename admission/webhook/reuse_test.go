package webhook_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/planekit/planekit/admission"
	registration "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
)

// TestReuse: a connection outlives changes of a configuration that do not touch
// where its webhook is.
func TestReuse(t *testing.T) {
	w, hook, other := begin(t, nil), serve(t, allow), serve(t, allow)
	w.configure("one", false, hook.at(), nil)
	w.check(w.make("a", ""), 201, "")
	const path = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations/one"
	w.check(w.do(http.MethodPatch, path, `{"metadata":{"labels":{"a":"b"}}}`), 200, "")
	w.configure("two", false, other.at(), nil) // when this is known, so is the change before
	w.check(w.make("b", ""), 201, "")
	hook.mu.Lock()
	defer hook.mu.Unlock()
	if len(hook.peers) != 1 || len(hook.asked) != 2 {
		t.Errorf("%d connections for %d reviews", len(hook.peers), len(hook.asked))
	}
}

// TestNamespaceScope: a Namespace is no namespaced object, though some say that
// it is in itself.
func TestNamespaceScope(t *testing.T) {
	nowhere := "https://127.0.0.1:1"
	for scope, asked := range map[registration.ScopeType]bool{
		registration.ClusterScope: true, registration.NamespacedScope: false, registration.AllScopes: true, "Elsewhere": false,
	} {
		rule := ruleOf("*", "*", "*", "*")
		rule.Scope = &scope
		p := direct(t, false, registration.MutatingWebhook{Name: "a", AdmissionReviewVersions: []string{"v1"}, Rules: []registration.RuleWithOperations{rule},
			ClientConfig: registration.WebhookClientConfig{URL: &nowhere}})
		err := p.Validate(t.Context(), &admission.Request{Operation: admission.Create, Namespace: "n", Name: "n", Object: &corev1.Namespace{},
			Resource: admission.GroupVersionResource{Version: "v1", Resource: "namespaces"}, Kind: admission.GroupVersionKind{Version: "v1", Kind: "Namespace"}})
		if asked != (err != nil && strings.Contains(err.Error(), "connection refused")) {
			t.Errorf("Validate(a create of a namespace, rule of scope %s) = %v, want a refused connection: %t", scope, err, asked)
		}
	}
}
