package planetest_test

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/plane/planetest"
)

// TestParametersBySelector: a policy is evaluated with each parameter that the selector of its binding finds.
func TestParametersBySelector(t *testing.T) {
	b := newBench(t)
	create := func(path, body string) {
		if _, err := b.root.Do(t.Context(), client.Request{Method: "POST", Path: path, Body: []byte(body)}); err != nil {
			t.Fatalf("POST %s %s = %v, want nil", path, body, err)
		}
	}
	for _, name := range []string{"a", "b", "other"} {
		create("/api/v1/namespaces/shop/configmaps", fmt.Sprintf(`{"metadata":{"name":"parameter-%s","labels":{"of":%q}}}`, name, strings.Repeat("x", len(name))))
	}
	const group = "/apis/admissionregistration.k8s.io/v1/"
	create(group+"validatingadmissionpolicies", `{"metadata":{"name":"p"},"spec":{"paramKind":{"apiVersion":"v1","kind":"ConfigMap"},
		"matchConstraints":{"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["secrets"]}]},
		"validations":[{"expression":"false","messageExpression":"'seen ' + params.metadata.name"}]}}`)
	create(group+"validatingadmissionpolicybindings", `{"metadata":{"name":"p"},"spec":{"policyName":"p","validationActions":["Deny"],"paramRef":{"selector":{"matchLabels":{"of":"x"}},"parameterNotFoundAction":"Deny"}}}`)
	planetest.Eventually(t, func() error { // the policy may not be known at once
		_, err := b.root.Do(t.Context(), client.Request{Method: "POST", Path: "/api/v1/namespaces/shop/secrets", Query: url.Values{"dryRun": {"All"}}, Body: []byte(`{"metadata":{"name":"s"}}`)})
		if err == nil {
			return errors.New("the secret is created")
		}
		if !strings.Contains(err.Error(), "seen parameter-a") && !strings.Contains(err.Error(), "seen parameter-b") {
			return fmt.Errorf("creating a secret = %w, want it denied with the name of a parameter", err)
		}
		return nil
	})
}
