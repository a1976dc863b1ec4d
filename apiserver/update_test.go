package apiserver_test

import (
	"context"
	"strings"
	"sync"
	"testing"

	"github.com/planekit/planekit/admission"
	"github.com/planekit/planekit/apiserver/apiservertest"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
)

const modified = `Operation cannot be fulfilled on configmaps "web": the object has been modified; please apply your changes to the latest version and try again`

func TestUpdate(t *testing.T) {
	a := start(t)
	first := into[corev1.ConfigMap](t, a.create(configPath, configMap("web", `,"data":{"k":"1"}`)))
	second := into[corev1.ConfigMap](t, a.want(a.do("PUT", configPath+"/web", configMap("web", `,"data":{"k":"2"}`)), 200, ""))
	if second.Data["k"] != "2" || second.UID != first.UID || second.ResourceVersion == first.ResourceVersion || !second.CreationTimestamp.Equal(&first.CreationTimestamp) {
		t.Errorf("updated: %+v", second)
	}
	same := into[corev1.ConfigMap](t, a.want(a.do("PUT", configPath+"/web", configMap("web", `,"data":{"k":"2"}`)), 200, ""))
	if same.ResourceVersion != second.ResourceVersion {
		t.Error("an update that changes nothing was written")
	}
	dry := into[corev1.ConfigMap](t, a.want(a.do("PUT", configPath+"/web?dryRun=All", configMap("web", `,"data":{"k":"3"}`)), 200, ""))
	now := into[corev1.ConfigMap](t, a.do("GET", configPath+"/web", ""))
	if dry.Data["k"] != "3" || now.Data["k"] != "2" {
		t.Errorf("dry run said %v and left %v", dry.Data, now.Data)
	}
}

func TestUpdateRefuses(t *testing.T) {
	a := start(t)
	old := into[corev1.ConfigMap](t, a.create(configPath, configMap("web", "")))
	a.want(a.do("PUT", configPath+"/web", configMap("web", `,"data":{"k":"1"}`)), 200, "")
	meta := func(extra string) string { return `{"metadata":{"name":"web",` + extra + `}}` }
	for _, c := range []struct {
		name, path, body string
		code             int
		text             string
	}{
		{"stale", "/web", meta(`"resourceVersion":"` + old.ResourceVersion + `"`), 409, modified},
		{"not a number", "/web", meta(`"resourceVersion":"x"`), 400, "resourceVersion"},
		{"other uid", "/web", meta(`"uid":"other"`), 409, "Precondition failed: UID in precondition: other, UID in object meta: " + string(old.UID)},
		{"deletion", "/web", meta(`"deletionTimestamp":"2030-01-01T00:00:00Z"`), 422, "metadata.deletionTimestamp: Invalid value"},
		{"bad label", "/web", meta(`"labels":{"a":"b/c"}`), 422, "metadata.labels: Invalid value"},
		{"other name", "/web", configMap("wib", ""), 400, "the name of the object (wib) does not match the name on the URL (web)"},
		{"no name", "/web", `{}`, 400, "the name of the object (web based on URL) was undeterminable: name must be provided"},
		{"other namespace", "/web", meta(`"namespace":"other"`), 400, "the namespace of the provided object does not match the namespace sent on the request"},
		{"absent", "/none", configMap("none", ""), 404, `configmaps "none" not found`},
		{"collection", "", configMap("web", ""), 405, ""},
	} {
		t.Run(c.name, func(t *testing.T) {
			a := &api{t, a.client, a.base}
			a.want(a.do("PUT", configPath+c.path, c.body), c.code, c.text)
		})
	}
}

func TestUpdateRaisesGeneration(t *testing.T) {
	a := start(t)
	a.create(deployPath, deployment("d", 1))
	got := into[appsv1.Deployment](t, a.want(a.do("PUT", deployPath+"/d", deployment("d", 2)), 200, ""))
	if got.Generation != 2 || *got.Spec.Replicas != 2 {
		t.Errorf("generation %d, replicas %d", got.Generation, *got.Spec.Replicas)
	}
	a.want(a.do("PUT", deployPath+"/d", deployment("d", -2)), 422, `Deployment.apps "d" is invalid: spec.replicas`)
}

// TestConcurrentEdits lets many clients add a label each, by patch, which is
// retried, and count in one key by update, which is not.
func TestConcurrentEdits(t *testing.T) {
	a := start(t)
	a.create(configPath, configMap("web", ""))
	var group sync.WaitGroup
	for i := range 16 {
		group.Go(func() {
			label := string(rune('a' + i))
			a.want(a.do("PATCH", configPath+"/web", `{"metadata":{"labels":{"`+label+`":"1"}}}`, mergePatch), 200, "")
		})
		group.Go(func() { a.increment() })
	}
	group.Wait()
	got := into[corev1.ConfigMap](t, a.do("GET", configPath+"/web", ""))
	if len(got.Labels) != 16 || len(got.Annotations["count"]) != 16 {
		t.Errorf("lost updates: labels %v, annotation %q", got.Labels, got.Annotations["count"])
	}
}

func (a *api) increment() {
	for {
		body := strings.TrimSpace(a.do("GET", configPath+"/web", "").body)
		if strings.Contains(body, `"count":"`) {
			body = strings.Replace(body, `"count":"`, `"count":"x`, 1)
		} else {
			body = strings.Replace(body, `"metadata":{`, `"metadata":{"annotations":{"count":"x"},`, 1)
		}
		if got := a.do("PUT", configPath+"/web", body); got.code != 409 {
			a.want(got, 200, "")
			return
		}
	}
}

func TestStatusSubresource(t *testing.T) {
	a := start(t)
	a.create(podPath, pod("p", ""))
	body := strings.Replace(pod("p", ""), `"nginx"`, `"other"`, 1)
	body = strings.TrimSuffix(body, "}") + `,"status":{"phase":"Running"}}`
	got := into[corev1.Pod](t, a.want(a.do("PUT", podPath+"/p/status", body), 200, ""))
	if got.Status.Phase != "Running" || got.Spec.Containers[0].Image != "nginx" {
		t.Errorf("status update: %+v", got)
	}
	a.want(a.do("GET", podPath+"/p/status", ""), 200, `"phase":"Running"`)
	a.want(a.do("PATCH", podPath+"/p/status", `{"status":{"phase":"Failed"}}`, strategicPatch), 200, `"phase":"Failed"`)
	a.want(a.do("GET", podPath+"/p/nothing", ""), 404, "")
	a.want(a.do("DELETE", podPath+"/p/status", ""), 405, "")
	a.want(a.do("GET", podPath+"/p/status/more", ""), 404, "")
}

func TestScaleSubresource(t *testing.T) {
	a := start(t)
	a.create(deployPath, deployment("d", 1))
	scale := into[autoscalingv1.Scale](t, a.want(a.do("GET", deployPath+"/d/scale", ""), 200, ""))
	if scale.Kind != "Scale" || scale.APIVersion != "autoscaling/v1" || scale.Spec.Replicas != 1 {
		t.Errorf("scale: %+v", scale)
	}
	put := `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"d","namespace":"default","resourceVersion":"%"},"spec":{"replicas":4}}`
	got := into[autoscalingv1.Scale](t, a.want(a.do("PUT", deployPath+"/d/scale", strings.Replace(put, "%", scale.ResourceVersion, 1)), 200, ""))
	if got.Spec.Replicas != 4 || got.ResourceVersion == scale.ResourceVersion {
		t.Errorf("scaled: %+v", got)
	}
	a.want(a.do("PUT", deployPath+"/d/scale", strings.Replace(put, "%", scale.ResourceVersion, 1)), 409, "has been modified")
	a.want(a.do("PATCH", deployPath+"/d/scale", `{"spec":{"replicas":7}}`, mergePatch), 200, `"replicas":7`)
	d := into[appsv1.Deployment](t, a.do("GET", deployPath+"/d", ""))
	if *d.Spec.Replicas != 7 || d.Generation != 3 {
		t.Errorf("deployment: replicas %d, generation %d", *d.Spec.Replicas, d.Generation)
	}
	a.want(a.do("GET", deployPath+"/d/scale", "", "Accept: application/json;as=Table;v=v1;g=meta.k8s.io"), 406, "")
}

func TestBindingSubresource(t *testing.T) {
	a := start(t)
	a.create(podPath, pod("p", ""))
	bind := `{"apiVersion":"v1","kind":"Binding","metadata":{"name":"p"},"target":{"kind":"Node","name":"n1"}}`
	a.want(a.do("POST", podPath+"/p/binding?dryRun=All", bind), 201, "")
	a.want(a.do("POST", podPath+"/p/binding", bind), 201, "")
	a.want(a.do("POST", podPath+"/p/binding", bind), 409, `pod is already assigned to node "n1"`)
	a.want(a.do("POST", podPath+"/other/binding", bind), 400, "name in URL does not match name in Binding object")
	a.want(a.do("POST", podPath+"/p/binding", `{"apiVersion":"v1","kind":"Binding","target":{"kind":"Node","name":"n1"}}`), 400, "name in URL does not match name in Binding object")
	if got := into[corev1.Pod](t, a.do("GET", podPath+"/p", "")); got.Spec.NodeName != "n1" {
		t.Errorf("node %q", got.Spec.NodeName)
	}
}

// TestAdmissionSetsNoGeneration: the generation of an object whose kind does not count it stays.
func TestAdmissionSetsNoGeneration(t *testing.T) {
	a := start(t, apiservertest.WithAdmission(admit{mutate: func(_ context.Context, r *admission.Request) error {
		if m := r.Object.(*corev1.ConfigMap); r.Operation == admission.Update {
			m.Generation, m.Namespace = 30, ""
		}
		return nil
	}}))
	a.create(configPath, configMap("web", ""))
	got := into[corev1.ConfigMap](t, a.want(a.do("PATCH", configPath+"/web", `{"data":{"a":"b"}}`, mergePatch), 200, ""))
	if got.Generation != 0 || got.Namespace != "default" {
		t.Errorf("the metadata after the PATCH is %+v, want generation 0 and namespace default", got.ObjectMeta)
	}
}
