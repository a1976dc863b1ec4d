package apiserver_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/apiserver/apiservertest"
	corev1 "k8s.io/api/core/v1"
)

// TestOwnersTwice: an owner reference that comes twice is stored once, with a warning.
func TestOwnersTwice(t *testing.T) {
	var again bool // lets admission repeat the first owner
	a := start(t, apiservertest.WithAdmission(admit{mutate: func(_ context.Context, r *admission.Request) error {
		if m, ok := r.Object.(*corev1.ConfigMap); ok && again {
			m.OwnerReferences = append(m.OwnerReferences, m.OwnerReferences[0])
		}
		return nil
	}}))
	owner := func(uid, more string) string {
		return `{"apiVersion":"v1","kind":"Pod","name":"p","uid":"` + uid + `"` + more + `}`
	}
	body := func(owners ...string) string {
		return `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"web","ownerReferences":[` + strings.Join(owners, ",") + `]}}`
	}
	const text = `.metadata.ownerReferences contains duplicate entries%s; API server dedups owner references in 1.20+, and may reject such requests as early as 1.24; please fix your requests; duplicate UID(s) observed: `
	before, after := fmt.Sprintf(text, ""), fmt.Sprintf(text, " after mutating admission happens")
	for _, test := range []struct {
		method, path, body, media string
		again                     bool
		warning                   string
		left                      int
	}{
		{"POST", configPath, body(owner("a", ""), owner("b", ""), owner("a", ""), owner("a", `,"controller":false`), owner("b", "")), "", false, before + "a, b", 3},
		{"PUT", configPath + "/web", body(owner("a", ""), owner("a", "")), "", false, before + "a", 1},
		{"PUT", configPath + "/web", body(owner("a", ""), owner("b", "")), "", true, after + "a", 2},
		{"PATCH", configPath + "/web", body(owner("c", ""), owner("c", "")), mergePatch, false, after + "c", 1},
		{"PATCH", configPath + "/web", body(owner("c", ""), owner("d", "")), mergePatch, false, "", 2},
	} {
		again = test.again
		var header []string
		if test.media != "" {
			header = []string{test.media}
		}
		got := a.do(test.method, test.path, test.body, header...)
		var warning string
		if w := got.header.Get("Warning"); w != "" {
			warning = strings.TrimSuffix(strings.TrimPrefix(w, `299 - "`), `"`)
		}
		if left := into[corev1.ConfigMap](t, got).OwnerReferences; got.code > 201 || warning != test.warning || len(left) != test.left {
			t.Errorf("%s %s: %d, warning %q, owners %v", test.method, test.body, got.code, warning, left)
		}
	}
}
