package apiserver_test

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestDelete(t *testing.T) {
	a := start(t)
	old := into[corev1.ConfigMap](t, a.create(configPath, configMap("web", "")))
	a.want(a.do("DELETE", configPath+"/web?dryRun=All", ""), 200, "")
	a.want(a.do("DELETE", configPath+"/web", `{"preconditions":{"uid":"other"}}`), 409, "the UID in the precondition (other) does not match the UID in record ("+string(old.UID)+")")
	a.want(a.do("DELETE", configPath+"/web", `{"preconditions":{"resourceVersion":"1234"}}`), 409, "the ResourceVersion in the precondition (1234) does not match")
	a.want(a.do("DELETE", configPath+"/web", `{"kind":"Pod","apiVersion":"v1"}`), 400, "DeleteOptions")
	a.want(a.do("DELETE", configPath+"/web", `{"propagationPolicy":"Other"}`), 422, "propagationPolicy")
	a.want(a.do("DELETE", configPath+"/web", `{`), 400, "couldn't get version/kind")
	got := into[metav1.Status](t, a.want(a.do("DELETE", configPath+"/web", `{"kind":"DeleteOptions","apiVersion":"apps/v1"}`), 200, ""))
	if got.Status != "Success" || got.Details.Name != "web" || got.Details.Kind != "configmaps" || got.Details.UID != old.UID {
		t.Errorf("status %+v", got)
	}
	a.want(a.do("DELETE", configPath+"/web", ""), 404, `configmaps "web" not found`)
}

func TestGracefulDelete(t *testing.T) {
	a := start(t)
	a.create(podPath, pod("p", ""))
	before := time.Now()
	first := into[corev1.Pod](t, a.want(a.do("DELETE", podPath+"/p", ""), 200, ""))
	at, after := first.DeletionTimestamp.Time, time.Now() // in whole seconds
	if at.Before(before.Add(29*time.Second)) || at.After(after.Add(31*time.Second)) || *first.DeletionGracePeriodSeconds != 30 {
		t.Errorf("deletion at %v of a request from %v to %v, grace %d", at, before, after, *first.DeletionGracePeriodSeconds)
	}
	again := into[corev1.Pod](t, a.want(a.do("DELETE", podPath+"/p?gracePeriodSeconds=60", ""), 200, ""))
	if again.ResourceVersion != first.ResourceVersion {
		t.Error("a longer grace period was written")
	}
	sooner := into[corev1.Pod](t, a.want(a.do("DELETE", podPath+"/p", `{"gracePeriodSeconds":10}`), 200, ""))
	if d := first.DeletionTimestamp.Sub(sooner.DeletionTimestamp.Time); d != 20*time.Second || *sooner.DeletionGracePeriodSeconds != 10 {
		t.Errorf("shortened by %v to %d", d, *sooner.DeletionGracePeriodSeconds)
	}
	a.want(a.do("PATCH", podPath+"/p/status", `{"status":{"phase":"Failed"}}`, mergePatch), 200, "")
	a.want(a.do("GET", podPath+"/p", ""), 200, `"deletionTimestamp"`)
	a.want(a.do("DELETE", podPath+"/p?gracePeriodSeconds=0", ""), 200, "")
	a.want(a.do("GET", podPath+"/p", ""), 404, "")
	a.create(podPath, pod("p", ""))
	a.want(a.do("DELETE", podPath+"/p?gracePeriodSeconds=0", ""), 200, "")
}

func TestFinalizers(t *testing.T) {
	a := start(t)
	a.create(deployPath, strings.Replace(deployment("d", 1), `"name":"d"`, `"name":"d","finalizers":["example.com/unknown"]`, 1))
	got := into[appsv1.Deployment](t, a.want(a.do("DELETE", deployPath+"/d", ""), 200, ""))
	if got.DeletionTimestamp == nil || *got.DeletionGracePeriodSeconds != 0 || got.Generation != 2 || len(got.Finalizers) != 1 {
		t.Fatalf("metadata %+v", got.ObjectMeta)
	}
	again := into[appsv1.Deployment](t, a.want(a.do("DELETE", deployPath+"/d", ""), 200, ""))
	if again.ResourceVersion != got.ResourceVersion {
		t.Error("a second deletion was written")
	}
	a.want(a.do("PATCH", deployPath+"/d", `{"metadata":{"finalizers":["example.com/unknown","example.com/new"]}}`, mergePatch), 422, "no new finalizers can be added if the object is being deleted")
	a.want(a.do("PATCH", deployPath+"/d", `{"metadata":{"deletionTimestamp":null}}`, mergePatch), 200, `"deletionTimestamp"`)
	a.want(a.do("PATCH", deployPath+"/d?dryRun=All", `{"metadata":{"finalizers":null}}`, mergePatch), 200, "")
	a.want(a.do("GET", deployPath+"/d", ""), 200, "")
	a.want(a.do("PATCH", deployPath+"/d", `{"metadata":{"finalizers":null}}`, mergePatch), 200, "")
	a.want(a.do("GET", deployPath+"/d", ""), 404, "")
}

func TestPropagationPolicies(t *testing.T) {
	a := start(t)
	for query, want := range map[string]string{
		"propagationPolicy=Orphan":     "orphan",
		"propagationPolicy=Foreground": "foregroundDeletion",
		"orphanDependents=true":        "orphan",
		"propagationPolicy=Background": "",
		"orphanDependents=false":       "",
		"":                             "",
	} {
		a.create(deployPath, deployment("d", 1))
		got := a.want(a.do("DELETE", deployPath+"/d?"+query, ""), 200, "")
		if want == "" {
			if status := into[metav1.Status](t, got); status.Status != "Success" {
				t.Errorf("DELETE with %q = %s, want the status Success", query, got.body)
			}
			continue
		}
		d := into[appsv1.Deployment](t, got)
		if len(d.Finalizers) != 1 || d.Finalizers[0] != want || d.DeletionTimestamp == nil {
			t.Errorf("DELETE with %q leaves %+v, want only the finalizer %s and a deletionTimestamp", query, d.ObjectMeta, want)
		}
		a.want(a.do("PATCH", deployPath+"/d", `{"metadata":{"finalizers":null}}`, mergePatch), 200, "")
	}
}

// TestOwnFinalizers deletes a namespace, whose finalizers are in its spec.
func TestOwnFinalizers(t *testing.T) {
	a := start(t)
	a.create("/api/v1/namespaces", `{"metadata":{"name":"ns"}}`)
	got := into[corev1.Namespace](t, a.want(a.do("DELETE", "/api/v1/namespaces/ns", ""), 200, ""))
	if got.Status.Phase != corev1.NamespaceTerminating || got.DeletionTimestamp == nil {
		t.Errorf("namespace %+v", got)
	}
	got.Spec.Finalizers = nil
	a.want(a.do("PUT", "/api/v1/namespaces/ns/finalize", `{"metadata":{"name":"ns"},"spec":{}}`), 200, "")
	a.want(a.do("GET", "/api/v1/namespaces/ns", ""), 404, "")
}

func TestDeleteCollection(t *testing.T) {
	a := start(t)
	for _, name := range []string{"a", "b", "c"} {
		a.create(configPath, strings.Replace(configMap(name, ""), `"name"`, `"labels":{"of":"`+name+`"},"name"`, 1))
	}
	a.create("/api/v1/namespaces/other/configmaps", configMap("a", ""))
	got := into[corev1.ConfigMapList](t, a.want(a.do("DELETE", configPath+"?labelSelector=of+in+(a,b)", ""), 200, ""))
	if len(got.Items) != 2 || got.Kind != "ConfigMapList" {
		t.Errorf("deleted %+v", got)
	}
	if left := into[corev1.ConfigMapList](t, a.do("GET", "/api/v1/configmaps", "")); len(left.Items) != 2 {
		t.Errorf("left %+v", left)
	}
	a.want(a.do("DELETE", configPath, ""), 200, "")
	if left := into[corev1.ConfigMapList](t, a.do("GET", "/api/v1/configmaps", "")); len(left.Items) != 1 || left.Items[0].Namespace != "other" {
		t.Errorf("left %+v", left)
	}
	a.want(a.do("DELETE", "/api/v1/configmaps", ""), 405, "does not allow this method")
}
