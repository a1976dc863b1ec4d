package webhook_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/planekit/planekit/apiserver/crd"
	admissionapi "k8s.io/api/admission/v1"
	registration "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// definition returns a definition of two versions: a spec has a in v1 and b in v2.
func definition(kind, conversion string) string {
	version := func(name, field string) string {
		return fmt.Sprintf(`{"name":%q,"served":true,"storage":%v,"subresources":{"status":{},"scale":{"specReplicasPath":".spec.n","statusReplicasPath":".status.n"}},
			"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{%q:{"type":"string"},"n":{"type":"integer"}}},
			"status":{"type":"object","properties":{"n":{"type":"integer"}}}}}}}`, name, name == "v2", field)
	}
	plural := strings.ToLower(kind) + "s"
	return fmt.Sprintf(`{"metadata":{"name":"%s.example.com"},"spec":{"group":"example.com","scope":"Namespaced",
		"names":{"plural":%q,"kind":%q},"versions":[%s,%s],"conversion":%s}}`, plural, plural, kind, version("v1", "a"), version("v2", "b"), conversion)
}

// converterServer is a conversion webhook that moves the field of a spec.
type converterServer struct {
	*hookServer
	asked, broken atomic.Int32
}

func serveConversion(t *testing.T) *converterServer {
	c := &converterServer{hookServer: serve(t, allow)}
	c.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.asked.Add(1)
		body, err := io.ReadAll(r.Body)
		var q struct {
			Request struct {
				UID, DesiredAPIVersion string
				Objects                []map[string]any
			}
		}
		if err != nil || json.Unmarshal(body, &q) != nil || c.broken.Load() > 0 {
			http.Error(w, "no", http.StatusBadRequest)
			return
		}
		for _, o := range q.Request.Objects {
			o["apiVersion"] = q.Request.DesiredAPIVersion
			from, to := "a", "b"
			if strings.HasSuffix(q.Request.DesiredAPIVersion, "/v1") {
				from, to = to, from
			}
			if spec, ok := o["spec"].(map[string]any); ok && spec[from] != nil {
				spec[to] = spec[from]
				delete(spec, from)
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "response": map[string]any{
			"uid": q.Request.UID, "convertedObjects": q.Request.Objects, "result": map[string]any{"status": "Success"},
		}})
	})
	return c
}

// install serves definitions, and waits until objects of both are served.
func (w *world) install(definitions ...string) {
	w.t.Helper()
	d, err := crd.New(crd.Config{Server: w.server.Server})
	if err != nil {
		w.t.Fatal(err)
	}
	background(w.t, d.Run)
	for _, text := range definitions {
		a := w.do(http.MethodPost, "/apis/apiextensions.k8s.io/v1/customresourcedefinitions", text)
		w.check(a, 201, "")
		plural, _, _ := strings.Cut(a.field("metadata.name").(string), ".")
		eventually(w.t, func() bool { return w.do(http.MethodGet, "/apis/example.com/v2/"+plural, "").code == 200 })
	}
}

// said describes a review.
func said(r *admissionapi.AdmissionRequest) string {
	text := fmt.Sprintf("%s %s %s %s as %s %s %s", r.Operation, r.RequestKind.Version, r.RequestResource.Version, r.RequestSubResource,
		r.Kind.Kind+"."+r.Kind.Version, r.Resource.Resource+"."+r.Resource.Version, r.SubResource)
	for _, raw := range [][]byte{r.Object.Raw, r.OldObject.Raw} {
		var o struct {
			metav1.TypeMeta
			Spec map[string]any
		}
		_ = json.Unmarshal(raw, &o)
		delete(o.Spec, "scaleTargetRef")
		delete(o.Spec, "metrics")
		text += fmt.Sprintf("; %s %v", o.APIVersion, o.Spec)
	}
	return text
}

// TestEquivalent: a webhook with a rule for one version is asked about requests in another, about the objects in its
// version, and its patches are of that. With the matchPolicy Exact it is not asked.
func TestEquivalent(t *testing.T) {
	w := begin(t, nil, crd.Resource(nil))
	conversion, exact := serveConversion(t), serve(t, deny)
	ca, _ := json.Marshal(conversion.ca)
	hooked := fmt.Sprintf(`{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":%q,"caBundle":%s}}}`, conversion.URL, ca)
	w.install(definition("Door", `{"strategy":"None"}`), definition("Lamp", hooked))
	patches := map[string]string{
		"Door":                    `[{"op":"add","path":"/metadata/annotations","value":{"by":"v1"}}]`,
		"Event":                   `[{"op":"add","path":"/metadata/annotations","value":{"by":"core"}}]`,
		"Lamp":                    `[{"op":"replace","path":"/spec/a","value":"patched"}]`,
		"Scale":                   `[{"op":"replace","path":"/spec/replicas","value":7}]`,
		"HorizontalPodAutoscaler": `[{"op":"replace","path":"/spec/targetCPUUtilizationPercentage","value":55}]`,
	}
	hook := serve(t, func(r *admissionapi.AdmissionRequest) *admissionapi.AdmissionResponse {
		answer := &admissionapi.AdmissionResponse{Allowed: true, PatchType: new(admissionapi.PatchTypeJSONPatch), Patch: []byte(patches[r.Kind.Kind])}
		if r.SubResource == "status" || r.Object.Raw == nil {
			answer.Patch, answer.PatchType = nil, nil
		}
		return answer
	})
	check := serve(t, allow)
	policy := func(p registration.MatchPolicyType) func(*registration.MutatingWebhook) {
		return func(h *registration.MutatingWebhook) {
			h.MatchPolicy = &p
			h.Rules = []registration.RuleWithOperations{ruleOf("*", "example.com", "v1", "*/*"), ruleOf("*", "example.com", "v1", "*"),
				ruleOf("*", "autoscaling", "v1", "horizontalpodautoscalers"), ruleOf("*", "", "v1", "events")}
		}
	}
	w.configure("exact", true, exact.at(), policy(registration.Exact))
	w.configure("exact2", false, exact.at(), policy(registration.Exact))
	w.configure("first", true, hook.at(), policy(registration.Equivalent))
	w.configure("check", false, check.at(), policy(registration.Equivalent))
	w.configure("check2", false, check.at(), policy(registration.Equivalent))
	const objects = "/apis/example.com/v2/namespaces/default/"
	object := func(kind, spec string) string {
		return fmt.Sprintf(`{"apiVersion":"example.com/v2","kind":%q,"metadata":{"name":"one"},"spec":%s}`, kind, spec)
	}
	const scaler = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
	for _, test := range []struct {
		method, path, body string
		field              string
		value              any
		// said is the review of the validating webhooks.
		said      string
		converted int32
	}{
		{"POST", objects + "doors", object("Door", `{"b":"x","n":1}`), "spec.b", "x", "CREATE v2 v2  as Door.v1 doors.v1 ; example.com/v1 map[b:x n:1];  map[]", 0},
		{"PATCH", objects + "doors/one", `{"spec":{"b":"y"}}`, "metadata.annotations.by", "v1",
			"UPDATE v2 v2  as Door.v1 doors.v1 ; example.com/v1 map[b:y n:1]; example.com/v1 map[b:x n:1]", 0},
		{"PATCH", objects + "doors/one/scale", `{"spec":{"replicas":3}}`, "spec.replicas", 7.0,
			"UPDATE v1 v2 scale as Scale.v1 doors.v1 scale; autoscaling/v1 map[replicas:7]; autoscaling/v1 map[replicas:1]", 0},
		{"PATCH", objects + "doors/one/status", `{"status":{"n":3}}`, "spec.b", "y",
			"UPDATE v2 v2 status as Door.v1 doors.v1 status; example.com/v1 map[b:y n:7]; example.com/v1 map[b:y n:7]", 0},
		{"DELETE", objects + "doors/one", "", "status", "Success", "DELETE v2 v2  as Door.v1 doors.v1 ;  map[]; example.com/v1 map[b:y n:7]", 0},
		// The object is converted for the mutating webhook, back, and once for both of the others.
		{"POST", objects + "lamps", object("Lamp", `{"b":"x","n":1}`), "spec.b", "patched", "CREATE v2 v2  as Lamp.v1 lamps.v1 ; example.com/v1 map[a:patched n:1];  map[]", 3},
		// The old object is converted once.
		{"PATCH", objects + "lamps/one", `{"spec":{"b":"y"}}`, "spec.b", "patched",
			"UPDATE v2 v2  as Lamp.v1 lamps.v1 ; example.com/v1 map[a:patched n:1]; example.com/v1 map[a:patched n:1]", 4},
		{"PATCH", objects + "lamps/one/scale", `{"spec":{"replicas":3}}`, "spec.replicas", 7.0,
			"UPDATE v1 v2 scale as Scale.v1 lamps.v1 scale; autoscaling/v1 map[replicas:7]; autoscaling/v1 map[replicas:1]", 0},
		{"POST", scaler, `{"metadata":{"name":"one"},"spec":{"maxReplicas":5,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},
			"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":50}}}]}}`,
			"apiVersion", "autoscaling/v2", "CREATE v2 v2  as HorizontalPodAutoscaler.v1 horizontalpodautoscalers.v1 ; autoscaling/v1 map[maxReplicas:5 minReplicas:1 targetCPUUtilizationPercentage:55];  map[]", 0},
		{"POST", "/apis/events.k8s.io/v1/namespaces/default/events", `{"metadata":{"name":"e"},"eventTime":"2026-01-01T00:00:00.000000Z","reportingController":"a/b",
			"reportingInstance":"i","action":"A","reason":"R","type":"Normal","regarding":{"kind":"Pod","namespace":"default","name":"p"}}`,
			"metadata.annotations.by", "core", "CREATE v1 v1  as Event.v1 events.v1 ; v1 map[];  map[]", 0},
	} {
		if test.method != "POST" {
			// A change of an object that the server's cache does not show yet is tried twice, with reviews of each try.
			w.do("GET", test.path, "")
		}
		before, reviews := conversion.asked.Load(), len(check.calls())
		a := w.do(test.method, test.path, test.body)
		if a.code > 201 || a.field(test.field) != test.value {
			t.Errorf("%s %s = %d %v, want at most 201 with %v in %s", test.method, test.path, a.code, a.body, test.value, test.field)
		}
		calls := check.calls()[reviews:]
		if len(calls) != 2 || said(calls[0]) != test.said || said(calls[1]) != test.said {
			for _, call := range calls {
				t.Errorf("%s %s is reviewed as\n%s\nwant\n%s", test.method, test.path, said(call), test.said)
			}
		}
		if asked := conversion.asked.Load() - before; asked != test.converted {
			t.Errorf("%s %s: %d conversions, want %d", test.method, test.path, asked, test.converted)
		}
	}
	if a := w.do(http.MethodGet, scaler+"/one", ""); !strings.Contains(fmt.Sprint(a.body), "averageUtilization:55") {
		t.Errorf("the patch is lost: %v", a.body)
	}
	if calls := exact.calls(); len(calls) > 0 {
		t.Errorf("webhooks that match exactly are asked: %s", said(calls[0]))
	}
	conversion.broken.Store(1)
	w.check(w.do("POST", objects+"lamps", object("Lamp", `{"b":"x"}`)), 500, "Internal error occurred: Internal error occurred: conversion webhook for example.com/v2, Kind=Lamp failed: ")
	w.check(w.do("POST", strings.Replace(objects, "v2", "v1", 1)+"lamps", strings.Replace(object("Lamp", `{"a":"x"}`), "v2", "v1", 1)), 400, `admission webhook "exact.example.com" denied the request: no`)
}
