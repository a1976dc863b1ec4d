package crd

import (
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/crd"
	upstreamv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/conversion"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/util/webhook"
)

// hook is a conversion webhook that moves spec.a of v1 to spec.b of v2 and back, and lies in its mode.
type hook struct {
	*httptest.Server
	mode  atomic.Value // string
	asked atomic.Int64
}

func startHook(t *testing.T) *hook {
	h := &hook{}
	h.mode.Store("")
	h.Server = httptest.NewUnstartedServer(h)
	h.Config.ErrorLog = log.New(io.Discard, "", 0)
	h.StartTLS()
	t.Cleanup(h.Close)
	return h
}

func (h *hook) bundle() []byte {
	return pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw})
}

// changes holds functions that change the first object and the response of a webhook, by mode.
var changes = map[string]func(o, metadata, response map[string]any){
	"other UID":    func(_, _, response map[string]any) { response["uid"] = "x" },
	"more":         func(_, _, response map[string]any) { response["convertedObjects"] = []any{1, 2} },
	"none":         func(_, _, response map[string]any) { response["convertedObjects"] = nil },
	"no object":    func(_, _, response map[string]any) { response["convertedObjects"] = []any{"x"} },
	"empty object": func(_, _, response map[string]any) { response["convertedObjects"] = []any{map[string]any{}} },
	"failure": func(_, _, response map[string]any) {
		response["result"] = map[string]any{"status": "Failure", "message": "no way"}
	},
	"silent failure":    func(_, _, response map[string]any) { response["result"] = map[string]any{"status": "Failure"} },
	"no result":         func(_, _, response map[string]any) { delete(response, "result") },
	"version":           func(o, _, _ map[string]any) { o["apiVersion"] = "example.com/v9" },
	"no version":        func(o, _, _ map[string]any) { delete(o, "apiVersion") },
	"kind":              func(o, _, _ map[string]any) { o["kind"] = "Torch" },
	"no metadata":       func(o, _, _ map[string]any) { delete(o, "metadata") },
	"bad metadata":      func(o, _, _ map[string]any) { o["metadata"] = "x" },
	"name":              func(_, metadata, _ map[string]any) { metadata["name"] = "x" },
	"namespace":         func(_, metadata, _ map[string]any) { metadata["namespace"] = "x" },
	"UID":               func(_, metadata, _ map[string]any) { metadata["uid"] = "x" },
	"labels":            func(_, metadata, _ map[string]any) { metadata["labels"] = map[string]any{"a": "b"} },
	"bad labels":        func(_, metadata, _ map[string]any) { metadata["labels"] = map[string]any{"a b": "c"} },
	"numbers as labels": func(_, metadata, _ map[string]any) { metadata["labels"] = map[string]any{"a": 1} },
	"text as labels":    func(_, metadata, _ map[string]any) { metadata["labels"] = "x" },
	"no labels":         func(_, metadata, _ map[string]any) { metadata["labels"] = nil },
	"bad annotations":   func(_, metadata, _ map[string]any) { metadata["annotations"] = map[string]any{"a b": "c"} },
	"null annotations":  func(_, metadata, _ map[string]any) { metadata["annotations"] = map[string]any{"a": nil} },
	"rest of metadata": func(_, metadata, _ map[string]any) {
		metadata["finalizers"], metadata["generation"] = []string{"a/b"}, 7
	},
	"unknown fields":     func(o, _, _ map[string]any) { o["x"] = 1 },
	"five megabytes":     func(o, _, _ map[string]any) { o["spec"].(map[string]any)["pad"] = strings.Repeat("x", 5<<20) },
	"good":               func(_, _, _ map[string]any) {},
	"items in an object": func(o, _, _ map[string]any) { o["items"] = []any{} },
}

// answers holds functions that answer for a webhook, by mode.
var answers = map[string]func(w http.ResponseWriter){
	"text":                 func(w http.ResponseWriter) { _, _ = io.WriteString(w, "hello") },
	"text after an answer": func(w http.ResponseWriter) { _, _ = io.WriteString(w, "{}xyz") },
	"a list":               func(w http.ResponseWriter) { _, _ = io.WriteString(w, "[]") },
	"nothing":              func(w http.ResponseWriter) { w.Header().Set("Content-Type", "application/json") },
	"no kind":              func(w http.ResponseWriter) { _, _ = io.WriteString(w, `{"response":{}}`) },
	"no response": func(w http.ResponseWriter) {
		_, _ = io.WriteString(w, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview"}`)
	},
	"other kind": func(w http.ResponseWriter) {
		_, _ = io.WriteString(w, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"Review"}`)
	},
	"v1beta1": func(w http.ResponseWriter) {
		_, _ = io.WriteString(w, `{"apiVersion":"apiextensions.k8s.io/v1beta1","kind":"ConversionReview"}`)
	},
	"only a kind": func(w http.ResponseWriter) { _, _ = io.WriteString(w, `{"kind":"ConversionReview"}`) },
	"options": func(w http.ResponseWriter) {
		_, _ = io.WriteString(w, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"GetOptions"}`)
	},
	"other version": func(w http.ResponseWriter) {
		_, _ = io.WriteString(w, `{"apiVersion":"apiextensions.k8s.io/v7","kind":"ConversionReview"}`)
	},
	"a status": func(w http.ResponseWriter) {
		_, _ = io.WriteString(w, `{"apiVersion":"v1","kind":"Status","status":"Failure","message":"mine","code":400}`)
	},
	"a success": func(w http.ResponseWriter) {
		_, _ = io.WriteString(w, `{"apiVersion":"v1","kind":"Status","status":"Success"}`)
	},
	"400": func(w http.ResponseWriter) { http.Error(w, "sorry", 400) },
	"401": func(w http.ResponseWriter) { http.Error(w, "sorry", 401) },
	"403": func(w http.ResponseWriter) { http.Error(w, "sorry", 403) },
	"404": func(w http.ResponseWriter) { http.Error(w, "sorry", 404) },
	"409": func(w http.ResponseWriter) { http.Error(w, "sorry", 409) },
	"422 with a status": func(w http.ResponseWriter) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(422)
		_, _ = io.WriteString(w, `{"apiVersion":"v1","kind":"Status","status":"Failure","message":"mine","code":422}`)
	},
	"500":      func(w http.ResponseWriter) { http.Error(w, "sorry", 500) },
	"503":      func(w http.ResponseWriter) { w.WriteHeader(503) },
	"no reply": func(http.ResponseWriter) { panic(http.ErrAbortHandler) },
}

func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var q struct {
		APIVersion string
		Request    struct {
			UID, DesiredAPIVersion string
			Objects                []map[string]any
		}
	}
	if err := json.NewDecoder(r.Body).Decode(&q); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	h.asked.Add(1)
	mode := h.mode.Load().(string)
	if answer := answers[mode]; answer != nil {
		answer(w)
		return
	}
	for _, o := range q.Request.Objects {
		o["apiVersion"] = q.Request.DesiredAPIVersion
		if spec, ok := o["spec"].(map[string]any); ok {
			from, to := "a", "b"
			if strings.HasSuffix(q.Request.DesiredAPIVersion, "/v1") {
				from, to = to, from
			}
			spec[to] = spec[from]
			delete(spec, from)
			delete(spec, "d"+from)
		}
	}
	response := map[string]any{"uid": q.Request.UID, "convertedObjects": q.Request.Objects, "result": map[string]any{"status": "Success"}}
	if change := changes[mode]; change != nil {
		metadata, _ := q.Request.Objects[0]["metadata"].(map[string]any)
		change(q.Request.Objects[0], metadata, response)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": q.APIVersion, "kind": "ConversionReview", "response": response})
}

// lamps returns the definition of a resource of group example.com whose objects a webhook converts, as JSON.
func lamps(kind, reviews, at string, bundle []byte) string {
	version := func(name, field string, storage bool) map[string]any {
		spec := map[string]any{
			field: map[string]any{"type": "string"}, "n": map[string]any{"type": "integer"}, "pad": map[string]any{"type": "string"},
			"d" + field: map[string]any{"type": "string", "default": name},
		}
		status := map[string]any{"n": map[string]any{"type": "integer"}}
		return map[string]any{
			"name": name, "served": true, "storage": storage, "selectableFields": []any{map[string]any{"jsonPath": ".spec." + field}},
			"subresources": map[string]any{
				"status": map[string]any{}, "scale": map[string]any{"specReplicasPath": ".spec.n", "statusReplicasPath": ".status.n"},
			},
			"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "properties": map[string]any{
				"spec": map[string]any{"type": "object", "properties": spec}, "status": map[string]any{"type": "object", "properties": status},
			}}},
		}
	}
	plural := strings.ToLower(kind) + "s"
	data, _ := json.Marshal(map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": plural + ".example.com"},
		"spec": map[string]any{
			"group": "example.com", "scope": "Namespaced", "names": map[string]any{"plural": plural, "kind": kind},
			"versions": []any{version("v1", "a", true), version("v2", "b", false)},
			"conversion": map[string]any{"strategy": "Webhook", "webhook": map[string]any{
				"conversionReviewVersions": []string{reviews}, "clientConfig": map[string]any{"url": at + "/convert", "caBundle": bundle},
			}},
		},
	})
	return string(data)
}

var (
	uids    = regexp.MustCompile(`[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}`)
	schemes = regexp.MustCompile(` in scheme ".*"`)
)

// sameText returns an error without what differs between two of the same.
func sameText(text string) string {
	return schemes.ReplaceAllString(uids.ReplaceAllString(text, "UID"), "")
}

// TestConversionAnswers compares the object, or the error, that a client gets after an answer of a webhook with the
// result of upstream's converter.
func TestConversionAnswers(t *testing.T) {
	h := startHook(t)
	s := apiservertest.Start(t, apiservertest.WithResources(crd.Resource(nil)))
	ours := &side{t: t, client: s.Client(), base: s.URL}
	serveDefinitions(t, s)
	for _, reviews := range []string{"v1", "v1beta1"} {
		kind := map[string]string{"v1": "Lamp", "v1beta1": "Torch"}[reviews]
		definition := lamps(kind, reviews, h.URL, h.bundle())
		theirs := upstreamConverter(t, definition)
		ours.install(definition)
		path := "/apis/example.com/v%d/namespaces/default/" + strings.ToLower(kind) + "s"
		h.mode.Store("good")
		modes := slices.Sorted(maps.Keys(changes))
		for _, mode := range append(modes, slices.Sorted(maps.Keys(answers))...) {
			// Each mode has an object of its own, because a good answer is kept.
			name := strings.ReplaceAll(strings.ToLower(mode), " ", "-")
			ours.want(201, "POST", fmt.Sprintf(path, 1), fmt.Sprintf(`{"apiVersion":"example.com/v1","kind":%q,"metadata":{"name":%q,"labels":{"l":"m"}},"spec":{"a":"x"}}`, kind, name))
			stored := &unstructured.Unstructured{Object: ours.want(200, "GET", fmt.Sprintf(path, 1)+"/"+name, "")}
			h.mode.Store(mode)
			got, code := ours.do("GET", fmt.Sprintf(path, 2)+"/"+name, "")
			want, err := theirs(stored)
			h.mode.Store("good")
			if err == nil {
				compareConverted(t, mode, got, want)
				continue
			}
			if is, _ := got["message"].(string); code != 500 || sameText(is) != sameText(err.Error()) {
				t.Errorf("%s, %s: %d %s\nwant %s", reviews, mode, code, is, err)
			}
		}
	}
}

// upstreamConverter returns upstream's conversion to v2.
func upstreamConverter(t *testing.T, definition string) func(*unstructured.Unstructured) (map[string]any, error) {
	t.Helper()
	var d upstreamv1.CustomResourceDefinition
	if err := json.Unmarshal([]byte(definition), &d); err != nil {
		t.Fatal(err)
	}
	factory, err := conversion.NewCRConverterFactory(noServices{}, func(r webhook.AuthenticationInfoResolver) webhook.AuthenticationInfoResolver { return r })
	if err != nil {
		t.Fatal(err)
	}
	converter, _, err := factory.NewConverter(&d)
	if err != nil {
		t.Fatal(err)
	}
	return func(u *unstructured.Unstructured) (map[string]any, error) {
		out, err := converter.ConvertToVersion(u, schema.GroupVersion{Group: "example.com", Version: "v2"})
		if err != nil {
			return nil, err
		}
		return out.(*unstructured.Unstructured).Object, nil
	}
}

type noServices struct{}

func (noServices) ResolveEndpoint(string, string, int32) (*url.URL, error) {
	return nil, errors.New("no services")
}

// compareConverted compares converted objects. The schema removes what it does not have after a conversion.
func compareConverted(t *testing.T, mode string, got, want map[string]any) {
	t.Helper()
	for _, name := range []string{"x", "items"} {
		delete(want, name)
	}
	a, _ := json.Marshal(got)
	b, _ := json.Marshal(want)
	if string(a) != string(b) {
		t.Errorf("%s: %.2000s\nwant %.2000s", mode, a, b)
	}
}
