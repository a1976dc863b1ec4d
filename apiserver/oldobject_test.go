package apiserver_test

import (
	"context"
	"maps"
	"testing"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/apiserver/apiservertest"
	corev1 "k8s.io/api/core/v1"
)

// TestAdmissionSeesTheTrueOldObject: OldObject is what is replaced, whatever the
// request says of it, and also if another request writes between the first look and
// the write.
func TestAdmissionSeesTheTrueOldObject(t *testing.T) {
	for name, test := range map[string]struct {
		method, body string
		header       string
	}{
		"update": {"PUT", configMap("a", `,"data":{"who":"jane","old":"forged"}`), "Accept: application/json"},
		"patch":  {"PATCH", `{"data":{"who":"jane"}}`, mergePatch},
		"apply":  {"PATCH", `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"who":"jane"}}`, "Content-Type: application/apply-patch+yaml"},
		"delete": {"DELETE", "", "Accept: application/json"},
	} {
		t.Run(name, func(t *testing.T) {
			var a *api
			var seen []map[string]string // of the old object, each time the validator looked
			intruding, intruded := false, false
			a = start(t, apiservertest.WithAdmission(admit{validate: func(_ context.Context, r *admission.Request) error {
				old, ok := r.OldObject.(*corev1.ConfigMap)
				if !ok || intruding {
					return nil
				}
				seen = append(seen, maps.Clone(old.Data))
				if !intruded {
					intruding, intruded = true, true
					a.want(a.do("PATCH", configPath+"/a?fieldManager=other", `{"data":{"state":"second"}}`, mergePatch), 200, "")
					intruding = false
				}
				return nil
			}}))
			a.create(configPath, configMap("a", `,"data":{"state":"first"}`))
			path := configPath + "/a?fieldManager=me"
			if test.method == "DELETE" {
				path = configPath + "/a"
			}
			a.want(a.do(test.method, path, test.body, test.header), 200, "")
			if first := seen[0]; first["state"] != "first" || first["who"] != "" || first["old"] != "" {
				t.Errorf("first the old object was %v", first)
			}
			if last := seen[len(seen)-1]; last["state"] != "second" || last["who"] != "" || last["old"] != "" {
				t.Errorf("what was replaced was not the old object %v", last)
			}
		})
	}
}
