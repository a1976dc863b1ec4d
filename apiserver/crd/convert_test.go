package crd_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/planekit/planekit/apiserver"
	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/crd"
	"github.com/planekit/planekit/kinds/apiextensions"
)

// hook is a webhook over TLS that moves spec.a of v1 to spec.b of v2, and back. It lies and fails on demand.
type hook struct {
	*httptest.Server
	// answer, if not nil, is called in place of the usual answer.
	answer atomic.Pointer[func(w http.ResponseWriter, r *http.Request, q *review)]
	// change, if not nil, changes the usual answer.
	change atomic.Pointer[func(q *review, response map[string]any)]

	mu    sync.Mutex // guards the fields below
	asked []string   // the questions: how many objects in which version
	last  string     // the body of the last question
}

// A review holds the question of the server.
type review struct {
	APIVersion, Kind string
	Request          struct {
		UID, DesiredAPIVersion string
		Objects                []map[string]any
	}
}

func startHook(t testing.TB) *hook {
	h := &hook{}
	h.Server = httptest.NewUnstartedServer(h)
	h.Config.ErrorLog = log.New(io.Discard, "", 0) // clients break off on purpose
	h.StartTLS()
	t.Cleanup(h.Close)
	return h
}

func (h *hook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	var q review
	if err == nil {
		err = json.Unmarshal(body, &q)
	}
	if err != nil || q.Kind != "ConversionReview" {
		http.Error(w, "no review", http.StatusBadRequest)
		return
	}
	h.mu.Lock()
	h.asked, h.last = append(h.asked, fmt.Sprintf("%d %s", len(q.Request.Objects), q.Request.DesiredAPIVersion)), string(body)
	h.mu.Unlock()
	if answer := h.answer.Load(); answer != nil {
		(*answer)(w, r, &q)
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
		}
	}
	response := map[string]any{"uid": q.Request.UID, "convertedObjects": q.Request.Objects, "result": map[string]any{"status": "Success"}}
	if change := h.change.Load(); change != nil {
		(*change)(&q, response)
	}
	_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": q.APIVersion, "kind": "ConversionReview", "response": response})
}

// took returns the questions since the last call.
func (h *hook) took() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	asked := strings.Join(h.asked, ", ")
	h.asked = nil
	return asked
}

func (h *hook) bundle() string {
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw}))
}

// lamps is a definition whose objects are converted by the webhook that config describes, as JSON.
func lamps(config string) string { return lampsIn(config, "v1", true) }

func lampsIn(config, storage string, oldServed bool) string {
	version := func(name, field string, served bool) string {
		return fmt.Sprintf(`{"name":%q,"served":%v,"storage":%v,"selectableFields":[{"jsonPath":".spec.%s"}],
			"subresources":{"status":{},"scale":{"specReplicasPath":".spec.n","statusReplicasPath":".status.n"}},
			"additionalPrinterColumns":[{"name":"Field","type":"string","jsonPath":".spec.%s"}],
			"schema":{"openAPIV3Schema":{"type":"object","properties":{"status":{"type":"object","properties":{"n":{"type":"integer"}}},
			"spec":{"type":"object","properties":{%q:{"type":"string"},"n":{"type":"integer"},"d%s":{"type":"string","default":%q}}}}}}}`,
			name, served, name == storage, field, field, field, field, name)
	}
	return fmt.Sprintf(`{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"lamps.example.com"},
		"spec":{"group":"example.com","scope":"Namespaced","names":{"plural":"lamps","kind":"Lamp"},"versions":[%s,%s],
		"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":%s}}}}`,
		version("v1", "a", oldServed), version("v2", "b", true), config)
}

func (h *hook) config() string {
	return fmt.Sprintf(`{"url":"%s/convert","caBundle":%q}`, h.URL, h.bundle())
}

func lamp(version, name, spec string) string {
	return fmt.Sprintf(`{"apiVersion":"example.com/%s","kind":"Lamp","metadata":{"name":%q},"spec":%s}`, version, name, spec)
}

const (
	lampsV1 = "/apis/example.com/v1/namespaces/default/lamps"
	lampsV2 = "/apis/example.com/v2/namespaces/default/lamps"
	merge   = "Content-Type: application/merge-patch+json"
)

// startLamps runs a server with lamps and their webhook.
func startLamps(t testing.TB) (*api, *hook) {
	a, h := start(t, nil), startHook(t)
	a.install(lamps(h.config()))
	return a, h
}

// TestConversion: requests in all versions, and what the webhook is asked for them.
func TestConversion(t *testing.T) {
	a, h := startLamps(t)
	asked := func(want string) {
		t.Helper()
		if got := h.took(); got != want {
			t.Errorf("asked for %q, want %q", got, want)
		}
	}
	a.want(a.do("POST", lampsV1, lamp("v1", "one", `{"a":"x","n":1}`)), 201, `"da":"v1"`)
	a.want(a.do("POST", lampsV1, lamp("v1", "two", `{"a":"y"}`)), 201, "")
	a.want(a.do("GET", lampsV1, ""), 200, `"a":"y"`)
	asked("")
	// Objects are completed in the version in which they are stored, and no more.
	if got := a.want(a.do("GET", lampsV2, ""), 200, `"spec":{"b":"x","n":1}`); strings.Contains(got.body, `"db"`) {
		t.Error(got.body)
	}
	asked("2 example.com/v2")
	if !strings.Contains(h.last, `"spec":{"a":"y","da":"v1"}`) || strings.Contains(h.last, "resourceVersion") {
		t.Error(h.last)
	}
	a.want(a.do("GET", lampsV2+"/one/scale", ""), 200, `"replicas":1`)
	a.want(a.do("GET", lampsV2+"?fieldSelector=spec.b%3Dy", ""), 200, `"name":"two"`)
	a.want(a.do("GET", lampsV2, "", "Accept: application/json;as=Table;g=meta.k8s.io;v=v1"), 200, `"cells":["one","x"]`)
	a.want(a.do("GET", lampsV2, "", "Accept: application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"), 200, `"name":"two"`)
	asked("")
	// A new object is completed in its own version, and shown as it is stored.
	if got := a.want(a.do("POST", lampsV2, lamp("v2", "three", `{"b":"z"}`)), 201, `"spec":{"b":"z"}`); !strings.Contains(got.body, `"generation":1`) {
		t.Error(got.body)
	}
	asked("1 example.com/v1, 1 example.com/v2")
	a.want(a.do("GET", lampsV1+"/three", ""), 200, `"spec":{"a":"z","da":"v1"}`)
	a.want(a.do("PATCH", lampsV2+"/three", `{"spec":{"b":"w","n":2}}`, merge), 200, `"b":"w"`)
	a.want(a.do("PATCH", lampsV2+"/three/scale", `{"spec":{"replicas":3}}`, merge), 200, `"replicas":3`)
	a.want(a.do("PATCH", lampsV2+"/three/status", `{"status":{"n":4},"spec":{"b":"no"}}`, merge), 200, `"n":4`)
	apply := "Content-Type: application/apply-patch+yaml"
	a.want(a.do("PATCH", lampsV2+"/three?fieldManager=m", lamp("v2", "three", `{"n":5}`), apply), 409, `conflict with "unknown" with subresource "scale" using example.com/v2: .spec.n`)
	a.want(a.do("PATCH", lampsV2+"/three?fieldManager=m&force=true", lamp("v2", "three", `{"n":5}`), apply), 200, "")
	a.want(a.do("PATCH", lampsV1+"/three?fieldManager=m2&force=true", lamp("v1", "three", `{"n":6}`), apply), 200, "")
	got := a.want(a.do("GET", lampsV1+"/three", ""), 200, `"spec":{"a":"w","da":"v1","n":6}`)
	if !strings.Contains(got.body, `"status":{"n":4}`) || !strings.Contains(got.body, `"manager":"m2","operation":"Apply","apiVersion":"example.com/v1"`) {
		t.Error(got.body)
	}
	a.want(a.do("DELETE", lampsV2+"/three", ""), 200, "")
	a.want(a.do("DELETE", lampsV2, ""), 200, "")
	a.want(a.do("GET", lampsV1, ""), 200, `"items":[]`)
}

// TestOwnersOfVersions: a write in one version leaves the owners of fields in the other.
func TestOwnersOfVersions(t *testing.T) {
	h := startHook(t)
	hooked := lamps(h.config())
	at := strings.Index(hooked, `,
		"conversion":`)
	for _, definition := range []string{hooked, hooked[:at] + "}}"} {
		a := start(t, nil)
		a.install(definition)
		a.want(a.do("POST", lampsV1+"?fieldManager=one", lamp("v1", "one", `{"a":"x","n":1}`)), 201, "")
		got := a.want(a.do("PATCH", lampsV2+"/one?fieldManager=two", `{"spec":{"b":"p","n":2}}`, merge), 200, "")
		for _, entry := range []string{
			`{"manager":"one","operation":"Update","apiVersion":"example.com/v1",`,
			`{"manager":"two","operation":"Update","apiVersion":"example.com/v2",`, `"fieldsV1":{"f:spec":{"f:b":{},"f:db":{},"f:n":{}}}`, `"f:da":{}`,
		} {
			if !strings.Contains(got.body, entry) {
				t.Errorf("no %s in %s", entry, got.body)
			}
		}
	}
}

// TestConversionLies: what a webhook may not answer, in kube-apiserver's words.
func TestConversionLies(t *testing.T) {
	a, h := startLamps(t)
	a.want(a.do("POST", lampsV1, lamp("v1", "one", `{"a":"x"}`)), 201, "")
	first := func(f func(o map[string]any)) func(*review, map[string]any) {
		return func(q *review, _ map[string]any) { f(q.Request.Objects[0]) }
	}
	metadata := func(name string, value any) func(*review, map[string]any) {
		return first(func(o map[string]any) { o["metadata"].(map[string]any)[name] = value })
	}
	const from = "conversion webhook for example.com/v1, Kind=Lamp "
	for text, change := range map[string]func(*review, map[string]any){
		from + `failed: expected response.uid="`: func(_ *review, r map[string]any) { r["uid"] = "x" },
		from + "returned 2 objects, expected 1":  func(_ *review, r map[string]any) { r["convertedObjects"] = []any{1, 2} },
		from + "returned 0 objects, expected 1":  func(_ *review, r map[string]any) { r["convertedObjects"] = nil },
		from + "failed: no way": func(_ *review, r map[string]any) {
			r["result"] = map[string]any{"status": "Failure", "message": "no way"}
		},
		from + "failed: response.result.status was '', not 'Success'":                                                        func(_ *review, r map[string]any) { delete(r, "result") },
		from + "returned invalid object at index 0: invalid groupVersion (expected example.com/v2, received example.com/v1)": first(func(o map[string]any) { o["apiVersion"] = "example.com/v1" }),
		from + "returned invalid object at index 0: invalid kind (expected Lamp, received Torch)":                            first(func(o map[string]any) { o["kind"] = "Torch" }),
		from + "returned invalid object: must have the same name: one != two":                                                metadata("name", "two"),
		from + "returned invalid object: must have the same namespace: default != other":                                     metadata("namespace", "other"),
		from + "returned invalid object: must have the same UID: ":                                                           metadata("uid", "1"),
		from + "returned invalid metadata: metadata.labels[a] must be a string, but is int64 in converted object":            metadata("labels", map[string]any{"a": 1}),
		from + "returned invalid metadata: invalid metadata.annotations of type string in converted object":                  metadata("annotations", "x"),
		from + `returned invalid metadata: metadata.labels: Invalid value: "a b"`:                                            metadata("labels", map[string]any{"a b": "c"}),
		"Object 'Kind' is missing in '{}'":                                                                                   func(_ *review, r map[string]any) { r["convertedObjects"] = []any{map[string]any{}} },
		"json: cannot unmarshal string into Go value of type map[string]interface {}":                                        func(_ *review, r map[string]any) { r["convertedObjects"] = []any{"x"} },
	} {
		h.change.Store(&change)
		a.want(a.do("GET", lampsV2+"/one", ""), http.StatusInternalServerError, text)
		a.want(a.do("GET", lampsV2, ""), http.StatusInternalServerError, text)
	}
	// The rest of the metadata, and fields that the schema does not have, are ignored.
	change := first(func(o map[string]any) {
		o["other"] = 1
		metadata := o["metadata"].(map[string]any)
		metadata["finalizers"], metadata["generation"], metadata["labels"] = []string{"example.com/x"}, 7, map[string]any{"l": "1"}
	})
	h.change.Store(&change)
	got := a.want(a.do("GET", lampsV2+"/one", ""), 200, `"labels":{"l":"1"}`)
	if strings.Contains(got.body, "finalizers") || strings.Contains(got.body, "other") || !strings.Contains(got.body, `"generation":1`) {
		t.Error(got.body)
	}
}

// TestConversionFails: a webhook that fails costs only the requests in the other version.
func TestConversionFails(t *testing.T) {
	a, h := startLamps(t)
	a.want(a.do("POST", lampsV1, lamp("v1", "one", `{"a":"x"}`)), 201, "")
	write := func(code int, media, text string) func(http.ResponseWriter, *http.Request, *review) {
		return func(w http.ResponseWriter, _ *http.Request, _ *review) {
			w.Header().Set("Content-Type", media)
			w.WriteHeader(code)
			_, _ = io.WriteString(w, text)
		}
	}
	const from = "conversion webhook for example.com/v1, Kind=Lamp failed: "
	for text, answer := range map[string]func(http.ResponseWriter, *http.Request, *review){
		"couldn't get version/kind; json parse error: ":                        write(200, "text/plain", "hello"),
		"couldn't get version/kind; json parse error: invalid character 'x'":   write(200, "application/json", "{}x"),
		"0-length response with status code: 200 and content type: text/plain": write(200, "text/plain", ""),
		"no response provided": write(200, "application/json", `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview"}`),
		"expected webhook response of apiextensions.k8s.io/v1, Kind=Conversion":   write(200, "application/json", `{"response":{}}`),
		`an error on the server ("sorry") has prevented the request from succeed`: write(500, "text/plain", "sorry"),
		"the server could not find the requested resource":                        write(404, "text/plain", "x"),
		"the server is currently unable to handle the request":                    write(503, "text/plain", "x"),
		"mine": write(422, "application/json", `{"kind":"Status","apiVersion":"v1","status":"Failure","message":"mine","code":422}`),
		"the server responded with the status code 302 but did not return more information": write(302, "text/plain", "x"),
		`Post "https://127.0.0.1:`: func(http.ResponseWriter, *http.Request, *review) { panic(http.ErrAbortHandler) },
		"the answer is larger than ": func(w http.ResponseWriter, _ *http.Request, _ *review) {
			for part := make([]byte, 1<<20); ; {
				if _, err := w.Write(part); err != nil {
					return
				}
			}
		},
	} {
		h.answer.Store(&answer)
		a.want(a.do("GET", lampsV2+"/one", ""), http.StatusInternalServerError, from+text)
		a.want(a.do("GET", lampsV1+"/one", ""), 200, "")
	}
	h.Close()
	a.want(a.do("GET", lampsV2+"/one", ""), http.StatusInternalServerError, from+`Post "`+h.URL+`/convert?timeout=30s": `)
	a.want(a.do("POST", lampsV2, lamp("v2", "two", `{"b":"x"}`)), http.StatusInternalServerError, `conversion webhook for example.com/v2, Kind=Lamp failed: Post "`)
	a.want(a.do("DELETE", lampsV2+"/one", ""), http.StatusInternalServerError, from)
	a.want(a.do("PATCH", lampsV1+"/one", `{"spec":{"a":"z"}}`, merge), 200, "")
	a.want(a.do("GET", "/api/v1/namespaces", ""), 200, "")
	// The definition and its objects can be deleted.
	a.want(a.do("DELETE", definitions+"/lamps.example.com", ""), 200, "")
	a.await("lamps.example.com", "deleted", func(d *apiextensions.CustomResourceDefinition) bool { return d == nil })
}

// TestConversionChanges: the webhook and the storage version change while the server runs.
func TestConversionChanges(t *testing.T) {
	a, h := startLamps(t)
	a.want(a.do("POST", lampsV1, lamp("v1", "one", `{"a":"x"}`)), 201, "")
	put := func(body string) {
		t.Helper()
		now := decode[apiextensions.CustomResourceDefinition](t, a.do("GET", definitions+"/lamps.example.com", ""))
		body = strings.Replace(body, `"metadata":{`, fmt.Sprintf(`"metadata":{"resourceVersion":%q,`, now.ResourceVersion), 1)
		a.want(a.do("PUT", definitions+"/lamps.example.com", body), 200, "")
	}
	put(lamps(`{"url":"https://127.0.0.1:1"}`))
	a.untilCode(lampsV2+"/one", 500)
	put(lampsIn(h.config(), "v2", true))
	a.untilCode(lampsV2+"/one", 200)
	// Objects that were stored in the former version are converted for requests in the new one.
	a.want(a.do("POST", lampsV2, lamp("v2", "two", `{"b":"y"}`)), 201, `"db":"v2"`)
	h.took()
	for _, path := range []string{lampsV1, lampsV2} {
		got := a.want(a.do("GET", path, ""), 200, "")
		if list := decode[apiextensions.CustomResourceDefinitionList](t, got); len(list.Items) != 2 {
			t.Error(got.body)
		}
	}
	if asked := h.took(); asked != "1 example.com/v1" && asked != "1 example.com/v1, 1 example.com/v2" {
		t.Errorf("asked for %q", asked)
	}
	a.want(a.do("PATCH", lampsV2+"/one", `{}`, merge), 200, "") // migrated
	now := decode[apiextensions.CustomResourceDefinition](t, a.do("GET", definitions+"/lamps.example.com", ""))
	if fmt.Sprint(now.Status.StoredVersions) != "[v1 v2]" {
		t.Error(now.Status.StoredVersions)
	}
	put(strings.Replace(lampsIn(h.config(), "v2", false), `"conversionReviewVersions":["v1"]`, `"conversionReviewVersions":["v7","v1beta1","v1"]`, 1))
	a.untilCode(lampsV1, 404)
	h.Close()
	for _, name := range []string{"one", "two"} {
		a.want(a.do("GET", lampsV2+"/"+name, ""), 200, "")
	}
}

// TestConversionService: services are resolved, and reviews of v1beta1 are asked first if the definition says so.
func TestConversionService(t *testing.T) {
	h := startHook(t)
	asked := atomic.Pointer[string]{}
	resolver := resolverFunc(func(_ context.Context, namespace, name string, port int32) (*url.URL, error) {
		asked.Store(new(fmt.Sprintf("%s/%s:%d", namespace, name, port)))
		return url.Parse(h.URL)
	})
	s := apiservertest.Start(t, apiservertest.WithResources(crd.Resource(nil)))
	run(t, s, nil, func(c *crd.Config) { c.Resolver = resolver })
	a := &api{t: t, client: s.As("admin", "system:masters")}
	body := strings.Replace(lamps(fmt.Sprintf(`{"service":{"namespace":"n","name":"s","path":"/p"},"caBundle":%q}`, h.bundle())), `["v1"]`, `["v1beta1","v1"]`, 1)
	a.install(body)
	a.want(a.do("POST", lampsV1, lamp("v1", "one", `{"a":"x"}`)), 201, "")
	// httptest's certificate is not for the service.
	a.want(a.do("GET", lampsV2, ""), http.StatusInternalServerError, `Post "https://s.n.svc:443/p?timeout=30s": tls: failed to verify certificate`)
	if got := asked.Load(); got == nil || *got != "n/s:443" {
		t.Errorf("resolved %v", got)
	}
}

type resolverFunc func(ctx context.Context, namespace, name string, port int32) (*url.URL, error)

func (f resolverFunc) Resolve(ctx context.Context, namespace, name string, port int32) (*url.URL, error) {
	return f(ctx, namespace, name, port)
}

// TestConversionValidated: what may not be in spec.conversion, in kube-apiserver's words.
func TestConversionValidated(t *testing.T) {
	a := start(t, nil)
	for text, config := range map[string]string{
		"spec.conversion.webhookClientConfig: Required value: exactly one of url or service is required":                                                                `{}`,
		`spec.conversion.webhookClientConfig.url: Invalid value: "http": 'https' is the only allowed URL scheme; desired format: https://host[/path]`:                   `{"url":"http://x"}`,
		`spec.conversion.webhookClientConfig.url: Invalid value: "": host must be specified; desired format: https://host[/path]`:                                       `{"url":"https:///x"}`,
		`spec.conversion.webhookClientConfig.service.name: Required value, spec.conversion.webhookClientConfig.service.path: Invalid value: "x": must start with a '/'`: `{"service":{"namespace":"n","name":"","path":"x"}}`,
		"spec.conversion.webhookClientConfig.service.port: Invalid value: 0: port is not valid: must be between 1 and 65535, inclusive":                                 `{"service":{"namespace":"n","name":"n","port":0}}`,
		`segment[1] may not be empty`: `{"service":{"namespace":"n","name":"n","path":"/a//b"}}`,
	} {
		a.want(a.do("POST", definitions, lamps(config)), 422, text)
	}
	good := lamps(`{"url":"https://127.0.0.1:1"}`)
	for text, change := range map[string][2]string{
		"spec.conversion.conversionReviewVersions: Required value":                                                  {`["v1"]`, `[]`},
		`spec.conversion.conversionReviewVersions: Invalid value: ["v7"]: must include at least one of v1, v1beta1`: {`["v1"]`, `["v7"]`},
		`spec.conversion.conversionReviewVersions[1]: Invalid value: "v1": duplicate version`:                       {`["v1"]`, `["v1","v1"]`},
		"spec.conversion.webhookClientConfig: Forbidden: should not be set when strategy is not set to Webhook":     {`"Webhook"`, `"None"`},
		`spec.conversion.strategy: Unsupported value: "Other": supported values: "None", "Webhook"`:                 {`"Webhook"`, `"Other"`},
		"spec.conversion.webhookClientConfig: Required value: required when strategy is set to Webhook":             {`"clientConfig"`, `"other"`},
		`spec.conversion.strategy: Invalid value: "Webhook": must be None if spec.preserveUnknownFields is true`:    {`"scope"`, `"preserveUnknownFields":true,"scope"`},
	} {
		a.want(a.do("POST", definitions, strings.Replace(good, change[0], change[1], 1)), 422, text)
	}
	// A bundle that cannot be read keeps a definition from being established, and an established one from being changed.
	bad := lamps(`{"url":"https://127.0.0.1:1","caBundle":"eA=="}`)
	a.want(a.do("POST", definitions, bad), 201, "")
	a.await("lamps.example.com", "not established, with an invalid CA bundle", func(d *apiextensions.CustomResourceDefinition) bool {
		c := condition(d, "Established")
		return c.Status == "False" && c.Reason == "InvalidCABundle" && c.Message == "The conversion webhook CABundle is invalid"
	})
	a.want(a.do("PATCH", definitions+"/lamps.example.com", `{"spec":{"conversion":{"webhook":{"clientConfig":{"caBundle":null}}}}}`, merge), 200, "")
	a.await("lamps.example.com", "established", func(d *apiextensions.CustomResourceDefinition) bool {
		return condition(d, "Established").Status == "True"
	})
	a.want(a.do("PATCH", definitions+"/lamps.example.com", `{"spec":{"conversion":{"webhook":{"clientConfig":{"caBundle":"eA=="}}}}}`, merge), 422,
		"spec.conversion.webhookClientConfig.caBundle: Invalid value: ")
}

// TestConversionSummaries: a hook gets a summary of each conversion, and what has failed.
func TestConversionSummaries(t *testing.T) {
	var mu sync.Mutex
	var told []string
	a := start(t, nil, apiservertest.WithConfig(func(c *apiserver.Config) {
		c.Hooks.Converted = func(s apiserver.ConversionSummary) {
			var failure interface{ ConversionFailure() string }
			kind := "ok"
			if errors.As(s.Err, &failure) {
				kind = failure.ConversionFailure()
			}
			mu.Lock()
			defer mu.Unlock()
			told = append(told, fmt.Sprintf("%s %s %s %d %s", s.Resource, s.From, s.To, s.Objects, kind))
		}
	}))
	h := startHook(t)
	a.install(lamps(h.config()))
	took := func(want string) {
		t.Helper()
		mu.Lock()
		defer mu.Unlock()
		if len(told) == 0 || told[len(told)-1] != "lamps.example.com v1 v2 2 "+want {
			t.Errorf("told %q, want %q", told, want)
		}
		told = nil
	}
	for _, name := range []string{"one", "two"} {
		a.want(a.do("POST", lampsV1, lamp("v1", name, `{"a":"x"}`)), 201, "")
	}
	for kind, change := range map[string]func(q *review, response map[string]any){
		"conversion_webhook_malformed_response_failure": func(_ *review, response map[string]any) { response["uid"] = "other" },
		"conversion_webhook_partial_response_failure":   func(_ *review, response map[string]any) { response["convertedObjects"] = nil },
		"conversion_webhook_invalid_converted_object_failure": func(q *review, _ map[string]any) {
			q.Request.Objects[0]["kind"] = "Torch"
		},
	} {
		h.change.Store(&change)
		a.want(a.do("GET", lampsV2, ""), 500, "")
		took(kind)
	}
	for text, spec := range map[string]any{
		"too many values":              slices.Repeat([]any{map[string]any{}}, 300_000),
		"more than 256 levels of nest": json.RawMessage(strings.Repeat("[", 400) + strings.Repeat("]", 400)),
	} {
		change := func(q *review, _ map[string]any) { q.Request.Objects[0]["spec"] = map[string]any{"a": spec} }
		h.change.Store(&change)
		a.want(a.do("GET", lampsV2, ""), 500, text)
		took("conversion_webhook_invalid_converted_object_failure")
	}
	h.change.Store(nil)
	refuse := func(w http.ResponseWriter, _ *http.Request, _ *review) { http.Error(w, "no", http.StatusTeapot) }
	h.answer.Store(&refuse)
	a.want(a.do("GET", lampsV2, ""), 500, "")
	took("conversion_webhook_call_failure")
	h.answer.Store(nil)
	a.want(a.do("GET", lampsV2, ""), 200, "")
	took("ok")
}
