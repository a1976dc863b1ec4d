//go:build definitions

package crd

import (
	"crypto/tls"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/planekit/planekit/compat/stock"
	"github.com/planekit/planekit/plane/planetest"
)

// admissionHook is an admission webhook. It changes what its rule names as v1 in a way that depends on the kind.
type admissionHook struct {
	*httptest.Server
	mu      sync.Mutex // guards reviews
	reviews []string   // what it was asked since the last call of took
}

func (h *admissionHook) took() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	out := strings.Join(h.reviews, "\n")
	h.reviews = nil
	return out
}

// reviewed returns the request of an AdmissionReview; nil if it has answered that r has none.
func reviewed(w http.ResponseWriter, r *http.Request) map[string]any {
	var review struct{ Request map[string]any }
	if err := json.NewDecoder(r.Body).Decode(&review); err != nil || review.Request == nil {
		http.Error(w, "no review", http.StatusBadRequest)
		return nil
	}
	return review.Request
}

func (h *admissionHook) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	q := reviewed(w, r)
	if q == nil {
		return
	}
	response := map[string]any{"uid": q["uid"], "allowed": true}
	kind := q["kind"].(map[string]any)["kind"].(string)
	patch := map[string]string{
		"Door":                    `[{"op":"add","path":"/metadata/annotations","value":{"by":"hook"}}]`,
		"Lamp":                    `[{"op":"replace","path":"/spec/a","value":"patched"}]`,
		"Scale":                   `[{"op":"replace","path":"/spec/replicas","value":7}]`,
		"HorizontalPodAutoscaler": `[{"op":"replace","path":"/spec/targetCPUUtilizationPercentage","value":55}]`,
	}[kind]
	if r.URL.Path == "/mutate" && q["object"] != nil && q["subResource"] != "status" {
		response["patch"], response["patchType"] = []byte(patch), "JSONPatch"
	}
	delete(q, "userInfo")
	withoutSystem(q)
	data, _ := json.MarshalIndent(q, "", " ")
	h.mu.Lock()
	h.reviews = append(h.reviews, r.URL.Path+" "+times.ReplaceAllString(sameText(string(data)), `"TIME"`))
	h.mu.Unlock()
	_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response})
}

// withoutSystem removes what the server itself sets, which it does at another time than kube-apiserver does: the
// generation before mutating webhooks are asked about an update, and the defaults of a version after all of them.
func withoutSystem(v any) {
	clean(v)
	switch v := v.(type) {
	case map[string]any:
		for _, name := range []string{"generation", "da", "db", "f:da", "f:db"} {
			delete(v, name)
		}
		for _, one := range v {
			withoutSystem(one)
		}
	case []any:
		for _, one := range v {
			withoutSystem(one)
		}
	}
}

// rulesForV1 are rules for requests in the first version.
const rulesForV1 = `[{"apiGroups":["example.com"],"apiVersions":["v1"],"operations":["*"],"resources":["doors","doors/*","lamps","lamps/*"]},
	{"apiGroups":["autoscaling"],"apiVersions":["v1"],"operations":["*"],"resources":["horizontalpodautoscalers"]}]`

// admit gives s the webhook and policies, and waits until they are in force.
func (s *side) admit(h *admissionHook) {
	s.t.Helper()
	const path = "/apis/admissionregistration.k8s.io/v1/"
	bundle, _ := json.Marshal(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: h.Certificate().Raw}))
	for _, kind := range []string{"mutate", "validate"} {
		plural := map[string]string{"mutate": "mutatingwebhookconfigurations", "validate": "validatingwebhookconfigurations"}[kind]
		for _, match := range []string{"Equivalent", "Exact"} {
			s.want(201, "POST", path+plural, fmt.Sprintf(`{"metadata":{"name":%q},"webhooks":[{"name":"%s.example.com","sideEffects":"None","admissionReviewVersions":["v1"],
				"matchPolicy":%q,"rules":%s,"clientConfig":{"url":"%s/%s","caBundle":%s}}]}`, strings.ToLower(match), strings.ToLower(match), match, rulesForV1,
				h.URL, kind+strings.TrimPrefix(match, "Equivalent"), bundle))
		}
	}
	for _, match := range []string{"Equivalent", "Exact"} {
		name, holds := strings.ToLower(match), "false"
		if match == "Equivalent" {
			holds = `request.kind.version == 'v1' && request.resource.version == 'v1' && (oldObject == null || oldObject.apiVersion.endsWith('v1')) && ` +
				`(object == null || object.apiVersion.endsWith('v1')) && (request.requestKind.version != 'v1' || has(request.subResource)) && request.name != 'denied'`
		}
		spec := fmt.Sprintf(`"matchConstraints":{"matchPolicy":%q,"resourceRules":%s}`, match, rulesForV1)
		s.want(201, "POST", path+"validatingadmissionpolicies", fmt.Sprintf(`{"metadata":{"name":%q},"spec":{%s,"validations":[{"expression":%q}]}}`, name, spec, holds))
		s.want(201, "POST", path+"validatingadmissionpolicybindings", fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"policyName":%q,"validationActions":["Deny"]}}`, name, name))
		// kube-apiserver cannot convert what a policy changes in another version of a built-in kind.
		spec = strings.Replace(spec, "autoscaling", "none", 1)
		s.want(201, "POST", path+"mutatingadmissionpolicies", fmt.Sprintf(`{"metadata":{"name":%q},"spec":{%s,"reinvocationPolicy":"Never","failurePolicy":"Fail",
			"matchConditions":[{"name":"object","expression":"!has(request.subResource) && object != null"}],"mutations":[{"patchType":"JSONPatch","jsonPatch":{"expression":%q}}]}}`,
			name, spec, `[JSONPatch{op: "add", path: "/metadata/labels", value: {"`+name+`": object.apiVersion.split("/")[1]}}]`))
		s.want(201, "POST", path+"mutatingadmissionpolicybindings", fmt.Sprintf(`{"metadata":{"name":%q},"spec":{"policyName":%q}}`, name, name))
	}
	await(s.t, "admission", func() bool {
		h.took()
		answer, _ := s.do("POST", doorsV2+"?dryRun=All", object("v2", "Door", "probe", `{"b":"x"}`))
		denied, _ := s.do("POST", doorsV2+"?dryRun=All", object("v2", "Door", "denied", `{"b":"x"}`))
		text, _ := json.Marshal([]any{answer, denied})
		return strings.Contains(string(text), `"equivalent":"v1"`) && strings.Contains(string(text), `"by":"hook"`) &&
			strings.Contains(string(text), "ValidatingAdmissionPolicy 'equivalent'") && strings.Contains(h.took(), "/validate ")
	})
}

const (
	doorsV2   = "/apis/example.com/v2/namespaces/default/doors"
	lampsV2   = "/apis/example.com/v2/namespaces/default/lamps"
	scalersV2 = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
)

// TestRealEquivalent compares what admission webhooks are asked, and what they and policies make of requests, if their
// rules name another version than that of the request.
func TestRealEquivalent(t *testing.T) {
	bin, err := filepath.Abs("../../bin/stock")
	if err != nil {
		t.Fatal(err)
	}
	conversion := startHook(t)
	conversion.mode.Store("good")
	h := &admissionHook{}
	h.Server = httptest.NewTLSServer(h)
	t.Cleanup(h.Close)
	theirs, ours := stock.NewServer(t, bin), planetest.Start(t, planetest.CustomResources()).REST("admin", "system:masters")
	pair, err := tls.X509KeyPair(ours.CertData, ours.KeyData)
	if err != nil {
		t.Fatal(err)
	}
	client := func(c *tls.Config) *http.Client {
		c.InsecureSkipVerify = true
		web := &http.Client{Transport: &http.Transport{TLSClientConfig: c}}
		t.Cleanup(web.CloseIdleConnections)
		return web
	}
	sides := []*side{
		{t: t, client: client(&tls.Config{}), base: theirs.URL, token: theirs.Token},
		{t: t, client: client(&tls.Config{Certificates: []tls.Certificate{pair}}), base: ours.Host},
	}
	var door map[string]any
	if err := json.Unmarshal([]byte(lamps("Door", "v1", conversion.URL, conversion.bundle())), &door); err != nil {
		t.Fatal(err)
	}
	spec := door["spec"].(map[string]any)
	spec["conversion"] = map[string]any{"strategy": "None"}
	for i, version := range spec["versions"].([]any) {
		version.(map[string]any)["storage"] = i == 1
	}
	doors, _ := json.Marshal(door)
	for _, s := range sides {
		s.install(string(doors))
		s.install(lamps("Lamp", "v1", conversion.URL, conversion.bundle()))
		s.admit(h)
	}
	const scaler = `{"metadata":{"name":"one"},"spec":{"maxReplicas":5,"scaleTargetRef":{"apiVersion":"apps/v1","kind":"Deployment","name":"web"},
		"metrics":[{"type":"Resource","resource":{"name":"cpu","target":{"type":"Utilization","averageUtilization":50}}}]}}`
	for _, r := range []request{
		{"POST", doorsV2, object("v2", "Door", "one", `{"b":"x","n":1}`), ""},
		{"PATCH", doorsV2 + "/one", `{"spec":{"n":2}}`, mergePatch},
		{"PATCH", doorsV2 + "/one/scale", `{"spec":{"replicas":3}}`, mergePatch},
		{"PATCH", doorsV2 + "/one/status", `{"status":{"n":3}}`, mergePatch},
		{"POST", doorsV2, object("v2", "Door", "denied", `{"b":"x","n":1}`), ""},
		{"DELETE", doorsV2 + "/one", "", ""},
		{"POST", lampsV2, object("v2", "Lamp", "one", `{"b":"x","n":1}`), ""},
		{"PATCH", lampsV2 + "/one", `{"spec":{"n":2}}`, mergePatch},
		{"PATCH", lampsV2 + "/one/status", `{"status":{"n":3}}`, mergePatch},
		{"GET", lampsV2 + "/one", "", ""},
		{"POST", lampsV2, object("v2", "Lamp", "denied", `{"b":"x","n":1}`), ""},
		{"DELETE", lampsV2 + "/one", "", ""},
		{"POST", scalersV2 + "?dryRun=All", scaler, ""},
	} {
		var reviews, answers []string
		for _, s := range sides {
			h.took()
			answer, code := s.do(r.method, r.path, r.body, "Content-Type: "+r.contentType())
			withoutSystem(answer)
			answers = append(answers, sameAnswer(answer, code))
			reviews = append(reviews, h.took())
		}
		if answers[0] != answers[1] {
			t.Errorf("%s %s: %s\nwant %s", r.method, r.path, answers[1], answers[0])
		}
		if reviews[0] != reviews[1] {
			t.Errorf("%s %s is reviewed as %s\nwant %s", r.method, r.path, reviews[1], reviews[0])
		}
	}
	conversion.mode.Store("failure")
	compareAnswers(t, sides, "broken", request{"POST", lampsV2, object("v2", "Lamp", "two", `{"b":"x","n":1}`), ""})
}
