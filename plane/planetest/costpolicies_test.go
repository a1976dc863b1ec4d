package planetest_test

import (
	"fmt"
	"net/url"
	"testing"
	"time"

	"github.com/planekit/planekit/client"
	"github.com/planekit/planekit/internal/used"
	"github.com/planekit/planekit/plane/planetest"
)

// policies are mutating policies that multiply parameters, objects and one another. Each applies to configmaps
// with its name as a label.
var policies = map[string]string{
	"label-of-each": `{"patchType":"JSONPatch","jsonPatch":{"expression":"[JSONPatch{op: 'add', path: '/metadata/labels/' + params.metadata.name, value: 'x'}]"}}`,
	"doubling":      `{"patchType":"JSONPatch","jsonPatch":{"expression":"[JSONPatch{op: 'add', path: '/data/a', value: object.data.a + object.data.a}]"}}`,
	"configuration": `{"patchType":"ApplyConfiguration","applyConfiguration":{"expression":"Object{metadata: Object.metadata{annotations: Object.metadata.annotations{a: params.metadata.name + object.data.a}}}"}}`,
	"lists":         `{"patchType":"JSONPatch","jsonPatch":{"expression":"lists.range(300).map(i, JSONPatch{op: 'add', path: '/data/k' + string(i), value: object.data.a})"}}`,
	"copies":        `{"patchType":"JSONPatch","jsonPatch":{"expression":"lists.range(1000).map(i, JSONPatch{op: 'copy', from: '/data', path: '/metadata/annotations'})"}}`,
}

// TestCostlyPolicies: a small request that a policy changes once for each of 2,000 parameters is refused or done
// within its budget, and other users are served.
func TestCostlyPolicies(t *testing.T) {
	b := newBench(t)
	create := func(path, body string) {
		if _, err := b.root.Do(t.Context(), client.Request{Method: "POST", Path: path, Body: []byte(body)}); err != nil {
			t.Fatalf("POST %s %s = %v, want nil", path, body, err)
		}
	}
	parameters := 2000
	if used.Slowdown > 1 {
		parameters = 200
	}
	for i := range parameters {
		create("/api/v1/namespaces/shop/configmaps", fmt.Sprintf(`{"metadata":{"name":"p%d","labels":{"parameter":"yes"}}}`, i))
	}
	for name, mutation := range policies {
		create("/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicies", fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"reinvocationPolicy":"IfNeeded","failurePolicy":"Fail","paramKind":{"apiVersion":"v1","kind":"ConfigMap"},
			"matchConstraints":{"objectSelector":{"matchLabels":{"policy":%q}},"resourceRules":[{"apiGroups":[""],"apiVersions":["v1"],"operations":["CREATE"],"resources":["configmaps"]}]},"mutations":[%s]}}`, name, name, mutation))
		create("/apis/admissionregistration.k8s.io/v1/mutatingadmissionpolicybindings", fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"policyName":%q,"paramRef":{"selector":{"matchLabels":{"parameter":"yes"}},"parameterNotFoundAction":"Deny"}}}`, name, name))
	}
	for name := range policies {
		t.Run(name, func(t *testing.T) {
			b := *b
			b.t = t
			body := fmt.Sprintf(`{"metadata":{"name":%q,"labels":{"policy":%q},"annotations":{}},"data":{"a":"0123456789"}}`, name, name)
			var took time.Duration
			var code int
			send := func() {
				_, _, code = b.send(b.root, "POST", "/api/v1/namespaces/shop/configmaps", url.Values{"dryRun": {"All"}}, "application/json", body)
			}
			planetest.Eventually(t, func() error { // the policy may not be known at once
				before := used.Processor()
				send()
				if took = used.Processor() - before; took < 3*time.Millisecond {
					return fmt.Errorf("a request takes %v: was the policy applied?", took)
				}
				return nil
			})
			before := used.Processor()
			send()
			took = used.Processor() - before
			peak := used.Peak(send)
			if most := mostTime; took > most || code == 0 || code >= 500 || used.Slowdown == 1 && peak > smallBody {
				t.Errorf("a request of %d bytes that the policy %q changes takes %v of processor time, %d MB and is answered %d, want at most %v and %d MB, and less than 500", len(body), name, took, peak>>20, code, most, smallBody>>20)
			}
		})
	}
}
