package apiserver_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/authz"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const applyPatch = "Content-Type: application/apply-patch+yaml"

func appliedPod(image string, more string) string {
	return fmt.Sprintf("apiVersion: v1\nkind: Pod\nmetadata: {name: p}\nspec:\n  containers:\n  - {name: c, image: %q}\n%s", image, more)
}

// owners are the managers of an object, in order, with what they own.
func owners(m metav1.ObjectMeta) []string {
	var all []string
	for _, e := range m.ManagedFields {
		all = append(all, strings.Join(slices.DeleteFunc([]string{e.Manager, string(e.Operation), e.Subresource}, func(s string) bool { return s == "" }), " ")+" "+e.FieldsV1.GetRawString())
	}
	slices.Sort(all)
	return all
}

func wantOwners(t *testing.T, m metav1.ObjectMeta, want ...string) {
	t.Helper()
	if got := owners(m); !slices.Equal(got, want) {
		t.Errorf("owners:\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

const ownsContainer = `{"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:image":{},"f:name":{}}}}}`

func TestApplyCreatesThenUpdates(t *testing.T) {
	a := start(t)
	path := podPath + "/p?fieldManager=one"
	created := into[corev1.Pod](t, a.want(a.do("PATCH", path, appliedPod("nginx:1", ""), applyPatch), 201, ""))
	wantOwners(t, created.ObjectMeta, "one Apply "+ownsContainer)
	if created.UID == "" || created.ResourceVersion == "" || created.CreationTimestamp.IsZero() {
		t.Errorf("metadata: %+v", created.ObjectMeta)
	}
	changed := into[corev1.Pod](t, a.want(a.do("PATCH", path, appliedPod("nginx:2", ""), applyPatch), 200, ""))
	if changed.Spec.Containers[0].Image != "nginx:2" || changed.UID != created.UID || changed.ResourceVersion == created.ResourceVersion {
		t.Errorf("the second apply gives %v, want the image nginx:2, the UID %s and another resourceVersion than %s",
			changed, created.UID, created.ResourceVersion)
	}
	// A field that its only owner no longer applies is removed.
	a.want(a.do("PATCH", path, appliedPod("nginx:2", "  - {name: d, image: x}"), applyPatch), 200, `"name":"d"`)
	if got := a.want(a.do("PATCH", path, appliedPod("nginx:2", ""), applyPatch), 200, ""); strings.Contains(got.body, `"name":"d"`) {
		t.Errorf("still there: %s", got.body)
	}
}

func TestApplyTheSameAgainChangesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, a := inMemory(t)
		path := podPath + "/p?fieldManager=one"
		first := into[corev1.Pod](t, a.do("PATCH", path, appliedPod("nginx:1", ""), applyPatch))
		time.Sleep(5 * time.Second)
		again := into[corev1.Pod](t, a.do("PATCH", path, appliedPod("nginx:1", ""), applyPatch))
		if again.ResourceVersion != first.ResourceVersion || !again.ManagedFields[0].Time.Equal(first.ManagedFields[0].Time) {
			t.Errorf("%s at %s, first %s at %s", again.ResourceVersion, again.ManagedFields[0].Time, first.ResourceVersion, first.ManagedFields[0].Time)
		}
		next := into[corev1.Pod](t, a.do("PATCH", path, appliedPod("nginx:2", ""), applyPatch))
		if next.ResourceVersion == first.ResourceVersion || !next.ManagedFields[0].Time.After(first.ManagedFields[0].Time.Time) {
			t.Errorf("%s at %s", next.ResourceVersion, next.ManagedFields[0].Time)
		}
	})
}

func TestApplyConflict(t *testing.T) {
	a := start(t)
	a.create(deployPath+"?fieldManager=creator", deployment("web", 1))
	path := deployPath + "/web?fieldManager=one"
	patch := "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: 3}\n"
	got := a.want(a.do("PATCH", path, patch, applyPatch), http.StatusConflict,
		`Apply failed with 1 conflict: conflict with "creator" using apps/v1`)
	status := into[metav1.Status](t, got)
	if status.Reason != metav1.StatusReasonConflict || len(status.Details.Causes) != 1 || status.Details.Causes[0].Type != metav1.CauseTypeFieldManagerConflict || status.Details.Causes[0].Field != ".spec.replicas" {
		t.Errorf("causes: %+v", status.Details)
	}
	forced := into[appsv1.Deployment](t, a.want(a.do("PATCH", path+"&force=true", patch, applyPatch), 200, ""))
	if *forced.Spec.Replicas != 3 {
		t.Errorf("replicas: %d", *forced.Spec.Replicas)
	}
	for _, o := range owners(forced.ObjectMeta) {
		if owns := strings.Contains(o, "f:replicas"); owns != strings.HasPrefix(o, "one Apply") {
			t.Errorf("after force: %s", o)
		}
	}
	// The same value is no conflict: both own it.
	a.want(a.do("PATCH", deployPath+"/web?fieldManager=two", patch, applyPatch), 200, "")
}

func TestApplyRefuses(t *testing.T) {
	a := start(t)
	a.create(podPath, pod("p", ""))
	for _, c := range []struct {
		name, query, patch string
		code               int
		text               string
	}{
		{"no manager", "", appliedPod("x", ""), 422, "fieldManager: Required value: is required for apply patch"},
		{"other kind", "?fieldManager=m", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: p}", 400, "invalid object type: /v1, Kind=ConfigMap"},
		{"no kind", "?fieldManager=m", "metadata: {name: p}", 400, "missing"},
		{"other name", "?fieldManager=m", "apiVersion: v1\nkind: Pod\nmetadata: {name: q}", 400, "does not match the name on the URL"},
		{"other namespace", "?fieldManager=m", "apiVersion: v1\nkind: Pod\nmetadata: {name: p, namespace: other}", 400, "does not match the namespace"},
		{"unknown field", "?fieldManager=m", appliedPod("x", "  nonsense: 1"), 400, ".spec.nonsense: field not declared in schema"},
		{"managed fields", "?fieldManager=m", "apiVersion: v1\nkind: Pod\nmetadata: {name: p, managedFields: [{manager: x}]}", 400, "metadata.managedFields must be nil"},
		{"duplicate item", "?fieldManager=m", appliedPod("x", "  - {name: c, image: y}"), 400, "duplicate entries for key"},
		{"not an object", "?fieldManager=m", "[]", 400, "error decoding YAML"},
		{"metadata a list", "?fieldManager=m", "apiVersion: v1\nkind: Pod\nmetadata: []", 400, "metadata must be an object"},
		{"duplicate key", "?fieldManager=m&fieldValidation=Strict", "apiVersion: v1\napiVersion: v1\nkind: Pod", 400, "already set"},
		{"stale", "?fieldManager=m", "apiVersion: v1\nkind: Pod\nmetadata: {name: p, resourceVersion: '1'}", 409, "the object has been modified"},
		{"other uid", "?fieldManager=m", "apiVersion: v1\nkind: Pod\nmetadata: {name: p, uid: x}", 422, `metadata.uid: Invalid value: "x": field is immutable`},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := &api{t, a.client, a.base}
			a.want(a.do("PATCH", podPath+"/p"+c.query, c.patch, applyPatch), c.code, c.text)
		})
	}
	a.want(a.do("PATCH", podPath+"/none/status?fieldManager=m", "apiVersion: v1\nkind: Pod\nmetadata: {name: none}", applyPatch), 404, "not found")
	a.want(a.do("PATCH", podPath+"/new?fieldManager=m", "apiVersion: v1\nkind: Pod\nmetadata: {name: new, uid: x}", applyPatch), 409, "uid mismatch: the provided object specified uid x")
}

func TestApplyDryRun(t *testing.T) {
	a := start(t)
	path := podPath + "/p?fieldManager=one&dryRun=All"
	a.want(a.do("PATCH", path, appliedPod("nginx:1", ""), applyPatch), 201, "")
	a.want(a.do("GET", podPath+"/p", ""), 404, "")
	a.create(podPath, pod("p", ""))
	a.want(a.do("PATCH", path+"&force=true", appliedPod("nginx:9", ""), applyPatch), 200, "nginx:9")
	if got := a.do("GET", podPath+"/p", ""); strings.Contains(got.body, "nginx:9") {
		t.Error("dry run was stored")
	}
}

func TestApplyCreatesOnlyWithTheRightToCreate(t *testing.T) {
	a := start(t, apiservertest.WithAuthorizer(authz.Func(func(_ context.Context, at authz.Attributes) (authz.Decision, string, error) {
		if at.Verb == "create" {
			return authz.NoOpinion, "", nil
		}
		return authz.Allow, "", nil
	})))
	a.want(a.do("PATCH", podPath+"/p?fieldManager=one", appliedPod("nginx", ""), applyPatch), 403, `cannot create resource "pods"`)
}

func TestOwnersAreRecorded(t *testing.T) {
	a := start(t)
	made := into[corev1.Pod](t, a.want(a.do("POST", podPath, pod("p", `,"labels":{"a":"1"}`), "User-Agent: kubectl/v1.36 (linux)"), 201, ""))
	const created = `kubectl Update {"f:metadata":{"f:labels":{".":{},"f:a":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:image":{},"f:name":{},"f:resources":{}}}}}`
	wantOwners(t, made.ObjectMeta, created)
	if e := made.ManagedFields[0]; e.APIVersion != "v1" || e.FieldsType != "FieldsV1" || e.Time == nil {
		t.Errorf("entry: %+v", e)
	}
	patched := into[corev1.Pod](t, a.do("PATCH", podPath+"/p/status?fieldManager=kubelet", `{"spec":{"nodeName":"lost"},"status":{"phase":"Running"}}`, mergePatch))
	const reported = `kubelet Update status {"f:status":{"f:phase":{}}}`
	wantOwners(t, patched.ObjectMeta, created, reported)
	// An update that says nothing of owners keeps them, and one field changes hands.
	patched.ManagedFields = nil
	body := strings.Replace(pod("p", `,"labels":{"a":"1"}`), "nginx", "envoy", 1)
	changed := into[corev1.Pod](t, a.want(a.do("PUT", podPath+"/p?fieldManager=other", body), 200, ""))
	wantOwners(t, changed.ObjectMeta,
		`kubectl Update {"f:metadata":{"f:labels":{".":{},"f:a":{}}},"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{".":{},"f:name":{},"f:resources":{}}}}}`,
		reported, `other Update {"f:spec":{"f:containers":{"k:{\"name\":\"c\"}":{"f:image":{}}}}}`)
	reset := a.want(a.do("PATCH", podPath+"/p", `{"metadata":{"managedFields":[{}]}}`, mergePatch), 200, "")
	if got := into[corev1.Pod](t, reset); len(got.ManagedFields) > 0 {
		t.Errorf("not reset: %v", owners(got.ObjectMeta))
	}
}

func TestScaleIsOwnedAsSubresource(t *testing.T) {
	a := start(t)
	a.create(deployPath+"?fieldManager=creator", deployment("web", 1))
	a.want(a.do("PATCH", deployPath+"/web/scale?fieldManager=scaler", `{"spec":{"replicas":5}}`, mergePatch), 200, "")
	got := into[appsv1.Deployment](t, a.do("GET", deployPath+"/web", ""))
	if !slices.Contains(owners(got.ObjectMeta), `scaler Update scale {"f:spec":{"f:replicas":{}}}`) {
		t.Errorf("owners: %v", owners(got.ObjectMeta))
	}
}

// TestApplyAfterClientSideApply is the move of an object from kubectl apply to
// kubectl apply --server-side: no conflict with one's own past.
func TestApplyAfterClientSideApply(t *testing.T) {
	a := start(t)
	last := `{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"web\",\"annotations\":{}},\"data\":{\"k\":\"1\"}}`
	body := `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"web","annotations":{"kubectl.kubernetes.io/last-applied-configuration":"` + last + `"}},"data":{"k":"1"}}`
	a.create(configPath+"?fieldManager=kubectl-client-side-apply", body)
	patch := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: web}\ndata: {k: '2'}\n"
	a.want(a.do("PATCH", configPath+"/web?fieldManager=other", patch, applyPatch), 409, "conflict")
	got := into[corev1.ConfigMap](t, a.want(a.do("PATCH", configPath+"/web?fieldManager=kubectl", patch, applyPatch), 200, ""))
	if got.Data["k"] != "2" || !strings.Contains(got.Annotations["kubectl.kubernetes.io/last-applied-configuration"], `"k":"2"`) {
		t.Errorf("the apply gives %v, want k=2 in the data and in the last applied configuration", got)
	}
}
