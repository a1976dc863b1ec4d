package apiserver_test

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const scalePath = deployPath + "/web/scale"

func scaleTo(n int) string {
	return fmt.Sprintf("apiVersion: autoscaling/v1\nkind: Scale\nmetadata: {name: web}\nspec: {replicas: %d}\n", n)
}

func deploymentOwners(t *testing.T, a *api) (appsv1.Deployment, []string) {
	t.Helper()
	d := into[appsv1.Deployment](t, a.want(a.do("GET", deployPath+"/web", ""), 200, ""))
	return *d, owners(d.ObjectMeta)
}

// TestApplyToScaleTakesReplicas follows spec.replicas from the manager that created
// the object to one that applies its scale, and on to one that applies the object.
func TestApplyToScaleTakesReplicas(t *testing.T) {
	a := start(t)
	a.create(deployPath+"?fieldManager=creator", deployment("web", 1))
	got := a.want(a.do("PATCH", scalePath+"?fieldManager=scaler", scaleTo(5), applyPatch), http.StatusConflict,
		`Apply failed with 1 conflict: conflict with "creator" using autoscaling/v1`)
	if status := into[metav1.Status](t, got); len(status.Details.Causes) != 1 || status.Details.Causes[0].Field != ".spec.replicas" {
		t.Errorf("causes: %+v", status.Details)
	}
	scale := into[autoscalingv1.Scale](t, a.want(a.do("PATCH", scalePath+"?fieldManager=scaler&force=true", scaleTo(5), applyPatch), 200, ""))
	if scale.Kind != "Scale" || scale.Spec.Replicas != 5 || scale.ManagedFields != nil {
		t.Errorf("the forced apply gives %v, want the kind Scale, 5 replicas and no managed fields", scale)
	}
	d, all := deploymentOwners(t, a)
	if *d.Spec.Replicas != 5 || d.Generation != 2 {
		t.Errorf("replicas %d, generation %d", *d.Spec.Replicas, d.Generation)
	}
	if len(all) != 2 || !slices.Contains(all, `scaler Apply scale {"f:spec":{"f:replicas":{}}}`) || strings.Count(strings.Join(all, ""), "f:replicas") != 1 {
		t.Errorf("owners: %v", all)
	}
	if at := slices.IndexFunc(d.ManagedFields, func(e metav1.ManagedFieldsEntry) bool { return e.Manager == "scaler" }); d.ManagedFields[at].APIVersion != "apps/v1" {
		t.Errorf("version: %+v", d.ManagedFields[at])
	}

	patch := "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: 3}\n"
	a.want(a.do("PATCH", deployPath+"/web?fieldManager=other", patch, applyPatch), http.StatusConflict, `conflict with "scaler" with subresource "scale"`)
	a.want(a.do("PATCH", deployPath+"/web?fieldManager=other&force=true", patch, applyPatch), 200, "")
	a.want(a.do("PATCH", scalePath+"?fieldManager=scaler", scaleTo(4), applyPatch), http.StatusConflict, `conflict with "other"`)
}

// TestScaleOwners: a manager that changes a scale by an update or a patch takes the replicas of the object from their owners.
// Mutating admission sees the owners of the replicas in both scales, validating admission and the client none.
func TestScaleOwners(t *testing.T) {
	var seen []string
	see := func(what string) func(context.Context, *admission.Request) error {
		return func(_ context.Context, r *admission.Request) error {
			if is, ok := r.Object.(*autoscalingv1.Scale); ok {
				seen = append(seen, fmt.Sprint(what, owners(is.ObjectMeta), owners(r.OldObject.(*autoscalingv1.Scale).ObjectMeta), is.UID != ""))
			}
			return nil
		}
	}
	a := start(t, apiservertest.WithAdmission(admit{mutate: see("mutate "), validate: see("validate ")}))
	a.create(deployPath+"?fieldManager=creator", deployment("web", 1))
	put := `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"web"},"spec":{"replicas":2}}`
	got := a.want(a.do("PUT", scalePath+"?fieldManager=put", put), 200, `"replicas":2`)
	if strings.Contains(got.body, "managedFields") {
		t.Errorf("the scale has owners: %s", got.body)
	}
	const replicas = `{"f:spec":{"f:replicas":{}}}`
	if want := []string{
		"mutate [put Update scale " + replicas + "] [creator Update " + replicas + "] false", "validate [] [] true",
	}; !slices.Equal(seen, want) {
		t.Errorf("admission has seen %q", seen)
	}
	d, all := deploymentOwners(t, a)
	if len(all) != 2 || all[1] != "put Update scale "+replicas || strings.Contains(all[0], "f:replicas") || d.ManagedFields[0].APIVersion != "apps/v1" {
		t.Errorf("owners: %v", all)
	}
	a.want(a.do("PUT", scalePath+"?fieldManager=again", put), 200, "")
	if same, _ := deploymentOwners(t, a); same.ResourceVersion != d.ResourceVersion {
		t.Error("an update that changes nothing is stored")
	}
	a.want(a.do("PATCH", scalePath+"?fieldManager=patch", `{"spec":{"replicas":3}}`, mergePatch), 200, `"replicas":3`)
	if _, all := deploymentOwners(t, a); len(all) != 2 || all[1] != "patch Update scale "+replicas {
		t.Errorf("owners: %v", all)
	}
	a.want(a.do("PUT", scalePath, strings.Replace(put, `"name":"web"`, "", 1)), 400, "name must be provided")
	a.want(a.do("PUT", scalePath, strings.Replace(put, `"web"`, `"web","uid":"x"`, 1)), 409, "Precondition failed: UID in precondition: x")
	a.want(a.do("PUT", scalePath, strings.Replace(put, `"web"`, `"web","resourceVersion":"1"`, 1)), 409, "the object has been modified")
}

func TestApplyToScaleAgainChangesNothing(t *testing.T) {
	a := start(t)
	a.create(deployPath+"?fieldManager=creator", deployment("web", 1))
	first := into[autoscalingv1.Scale](t, a.want(a.do("PATCH", scalePath+"?fieldManager=scaler&force=true", scaleTo(5), applyPatch), 200, ""))
	again := into[autoscalingv1.Scale](t, a.want(a.do("PATCH", scalePath+"?fieldManager=scaler", scaleTo(5), applyPatch), 200, ""))
	if first.ResourceVersion != again.ResourceVersion {
		t.Errorf("%s is now %s", first.ResourceVersion, again.ResourceVersion)
	}
	dry := into[autoscalingv1.Scale](t, a.want(a.do("PATCH", scalePath+"?fieldManager=scaler&dryRun=All", scaleTo(7), applyPatch), 200, ""))
	if d, _ := deploymentOwners(t, a); dry.Spec.Replicas != 7 || *d.Spec.Replicas != 5 {
		t.Errorf("dry run: shown %d, stored %d", dry.Spec.Replicas, *d.Spec.Replicas)
	}
}

func TestApplyToScaleRefuses(t *testing.T) {
	a := start(t)
	a.create(deployPath+"?fieldManager=creator", deployment("web", 1))
	query := "?fieldManager=m&force=true"
	a.want(a.do("PATCH", deployPath+"/none/scale"+query, strings.ReplaceAll(scaleTo(1), "web", "none"), applyPatch), 404, `"none" not found`)
	a.want(a.do("PATCH", scalePath+query, "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}", applyPatch), 400, "invalid object type")
	a.want(a.do("PATCH", scalePath+query, scaleTo(1)+"nonsense: 1\n", applyPatch), 400, ".nonsense: field not declared in schema")
	a.want(a.do("PATCH", scalePath, scaleTo(1), applyPatch), 422, "is required for apply patch")
}

// TestApplyWhereNothingIsOwned patches a subresource of its own type that says
// nothing of whose fields it shows.
func TestApplyWhereNothingIsOwned(t *testing.T) {
	all := resources()
	for i := range all {
		if all[i].Kind == "Deployment" {
			unowned := scale()
			unowned.Replicas = ""
			all[i].Subresources = []apiserver.Subresource{unowned}
		}
	}
	s := apiservertest.Start(t, apiservertest.WithResources(all...))
	a := &api{t, s.As("admin", "system:masters"), "http://memory"}
	a.create(deployPath, deployment("web", 1))
	a.want(a.do("PATCH", scalePath+"?fieldManager=m", scaleTo(2), applyPatch), 415, "")
}

// TestResetsAreNotOwned changes fields through paths that cannot change them.
func TestResetsAreNotOwned(t *testing.T) {
	all := []apiserver.Resource{}
	for _, r := range resources() {
		if r.Kind == "Deployment" {
			r.Resets = []string{"status", "metadata.annotations"}
		}
		all = append(all, r)
	}
	s := apiservertest.Start(t, apiservertest.WithResources(all...))
	a := &api{t, s.As("admin", "system:masters"), "http://memory"}
	a.create(deployPath+"?fieldManager=creator", deployment("web", 1))
	a.want(a.do("PATCH", deployPath+"/web?fieldManager=m", `{"metadata":{"annotations":{"a":"b"},"labels":{"a":"b"}},"status":{"replicas":9}}`, mergePatch), 200, "")
	if _, all := deploymentOwners(t, a); !slices.ContainsFunc(all, func(o string) bool {
		return strings.HasPrefix(o, `m Update {"f:metadata":{"f:labels":{`) && !strings.Contains(o, "annotations") && !strings.Contains(o, "status")
	}) {
		t.Errorf("owners: %v", all)
	}
}
