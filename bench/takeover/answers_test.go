package takeover

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/kube"
	"github.com/planekit/planekit/authn/user"
)

const (
	maps    = "/api/v1/namespaces/default/configmaps"
	merge   = "application/merge-patch+json"
	jsonOps = "application/json-patch+json"
	smart   = "application/strategic-merge-patch+json"
	apply   = "application/apply-patch+yaml"
)

// question is an invalid request.
type question struct{ method, path, media, body string }

func configMap(name, more string) string {
	return fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q}%s}`, name, more)
}

func questions() []question {
	const options = `{"kind":"DeleteOptions","apiVersion":"v1",%s}`
	out := []question{
		{"POST", maps, "", `{"apiVersion":"v1","kind":"Con`},
		{"POST", maps, "", ``},
		{"POST", maps, "", `[]`},
		{"POST", maps, "", `null`},
		{"POST", maps, "", `"x"`},
		{"POST", maps, "", `{}`},
		{"POST", maps, "", `{"kind":"ConfigMap"}`},
		{"POST", maps, "", `{"apiVersion":"v1"}`},
		{"POST", maps, "", `{"apiVersion":"v2","kind":"ConfigMap","metadata":{"name":"a"}}`},
		{"POST", maps, "", `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"}}`},
		{"POST", maps, "", `{"apiVersion":"a/b/c","kind":"ConfigMap","metadata":{"name":"a"}}`},
		{"POST", maps, "", configMap("a", `,"data":{"a":1}`)},
		{"POST", maps, "", configMap("a", `,"data":[]`)},
		{"POST", maps, "", configMap("a", `} {`)},
		{"POST", maps, "", configMap("", ``)},
		{"POST", maps, "", configMap("A", ``)},
		{"POST", maps, "", configMap("..", ``)},
		{"POST", maps, "", configMap("a/b", ``)},
		{"POST", maps, "", configMap("a%b", ``)},
		{"POST", maps, "", configMap(strings.Repeat("a", 254), ``)},
		{"POST", maps, "", `{"metadata":{"generateName":"A-"}}`},
		{"POST", maps, "", `{"metadata":{"name":"a","namespace":"other"}}`},
		{"POST", maps, "", `{"metadata":{"name":"a","resourceVersion":"1"}}`},
		{"POST", maps, "", `{"metadata":{"name":"a","labels":{"a b":"c"}}}`},
		{"POST", maps, "", `{"metadata":{"name":"a","labels":{"a":"` + strings.Repeat("x", 64) + `"}}}`},
		{"POST", maps, "", `{"metadata":{"name":"a","annotations":{"a":"` + strings.Repeat("x", 300<<10) + `"}}}`},
		{"POST", maps, "", `{"metadata":{"name":"a","finalizers":["x"]}}`},
		{"POST", maps, "", `{"metadata":{"name":"a","ownerReferences":[{"kind":"Pod"}]}}`},
		{"POST", maps, "", `{"metadata":{"name":"a","creationTimestamp":"x"}}`},
		{"POST", maps + "?fieldValidation=Strict", "", configMap("a", `,"dato":{},"data":{},"data":{}`)},
		{"POST", maps + "?fieldValidation=Maybe", "", configMap("a", ``)},
		{"POST", maps + "?dryRun=Some", "", configMap("a", ``)},
		{"POST", maps + "?fieldManager=" + strings.Repeat("x", 129), "", configMap("a", ``)},
		{"POST", maps + "?fieldManager=%07", "", configMap("a", ``)},
		{"POST", maps, "text/plain", configMap("a", ``)},
		{"POST", maps, "application/json; charset=latin1", configMap("web", ``)},
		{"POST", maps, "application/yaml", "a: [b"},
		{"POST", maps, "application/yaml", "kind: ConfigMap\napiVersion: v1\nmetadata: {name: web}\nmetadata: {}\n"},
		{"POST", maps, "application/vnd.kubernetes.protobuf", "k8s\x00garbage"},
		{"POST", maps, "application/vnd.kubernetes.protobuf", "garbage"},
		{"POST", maps, "", configMap("web", ``)}, // it exists
		{"POST", maps + "/web", "", configMap("web", ``)},
		{"PUT", maps, "", configMap("web", ``)},
		{"PUT", maps + "/web", "", configMap("other", ``)},
		{"PUT", maps + "/web", "", `{"metadata":{"name":"web","namespace":"other"}}`},
		{"PUT", maps + "/web", "", `{"metadata":{}}`},
		{"PUT", maps + "/web", "", `{"metadata":{"name":"web","resourceVersion":"x"}}`},
		{"PUT", maps + "/web", "", `{"metadata":{"name":"web","resourceVersion":"1"}}`},
		{"PUT", maps + "/web", "", `{"metadata":{"name":"web","uid":"x"}}`},
		{"PUT", maps + "/nothing", "", configMap("nothing", ``)},
		{"PUT", maps + "/nothing", "", `{"metadata":{"name":"nothing","uid":"x"}}`},
		{"PUT", maps + "/nothing", "", `{"metadata":{"name":"nothing","resourceVersion":"1"}}`},
		{"PATCH", maps + "/web", "application/json", `{}`},
		{"PATCH", maps + "/web", merge, ``},
		{"PATCH", maps + "/web", merge, `[]`},
		{"PATCH", maps + "/web", merge, `null`},
		{"PATCH", maps + "/web", merge, `{"data":`},
		{"PATCH", maps + "/web", merge, `{"metadata":{"name":"other"}}`},
		{"PATCH", maps + "/web", merge, `{"metadata":{"name":null}}`},
		{"PATCH", maps + "/web", merge, `{"metadata":{"namespace":"other"}}`},
		{"PATCH", maps + "/web", merge, `{"metadata":{"uid":"x"}}`},
		{"PATCH", maps + "/web", merge, `{"metadata":{"resourceVersion":"1"}}`},
		{"PATCH", maps + "/web", merge, `{"metadata":{"resourceVersion":"x"}}`},
		{"PATCH", maps + "/web", merge, `{"metadata":null}`},
		{"PATCH", maps + "/web", merge, `{"kind":"Pod"}`},
		{"PATCH", maps + "/web", merge, `{"apiVersion":"v2"}`},
		{"PATCH", maps + "/web", merge, `{"data":{"a":1}}`},
		{"PATCH", maps + "/web", merge, `{"data":3}`},
		{"PATCH", maps + "/web?fieldValidation=Strict", merge, `{"dato":3}`},
		{"PATCH", maps + "/web?fieldValidation=Strict", merge, `{"data":{"a":"1","a":"2"}}`},
		{"PATCH", maps + "/web?fieldValidation=Strict", smart, `{"data":{"a":"1","a":"2"}}`},
		{"PATCH", maps + "/web?fieldValidation=Strict", smart, `{"dato":3}`},
		{"PATCH", maps + "/web?fieldValidation=Strict", jsonOps, `[{"op":"add","path":"/dato","value":3}]`},
		{"PATCH", maps + "/web?fieldValidation=Strict", jsonOps, `[{"op":"add","op":"add","path":"/data","value":{"a":"b"}}]`},
		{"PATCH", maps + "/web?fieldValidation=Strict&fieldManager=m", apply, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"web"},"dato":3}`},
		{"PATCH", maps + "/web?fieldValidation=Strict&fieldManager=m", apply, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"web"},"data":{"a":"b","a":"b"}}`},
		{"PATCH", maps + "/web?force=true", merge, `{}`},
		{"PATCH", maps + "/web", smart, `[]`},
		{"PATCH", maps + "/web", smart, `null`},
		{"PATCH", maps + "/web", smart, `{"$patch":"nonsense"}`},
		{"PATCH", maps + "/web", smart, `{"metadata":{"ownerReferences":[3]}}`},
		{"PATCH", maps + "/web", smart, `{"metadata":{"ownerReferences":[{"name":"no-key"}]}}`},
		{"PATCH", maps + "/web", smart, `{"data":3}`},
		{"PATCH", maps + "/web", jsonOps, `{}`},
		{"PATCH", maps + "/web", jsonOps, `[3]`},
		{"PATCH", maps + "/web", jsonOps, `[{}]`},
		{"PATCH", maps + "/web", jsonOps, `[{"op":"nonsense","path":"/data"}]`},
		{"PATCH", maps + "/web", jsonOps, `[{"op":"test","path":"/data/a","value":"b"}]`},
		{"PATCH", maps + "/web", jsonOps, `[{"op":"remove","path":"/nothing"}]`},
		{"PATCH", maps + "/web", jsonOps, `[{"op":"replace","path":"/nothing/below","value":1}]`},
		{"PATCH", maps + "/web", jsonOps, `[{"op":"add","path":"nothing","value":1}]`},
		{"PATCH", maps + "/web", jsonOps, `[{"op":"replace","path":"","value":3}]`},
		{"PATCH", maps + "/web", jsonOps, `[` + strings.Repeat(`{"op":"test","path":"/kind","value":"x"},`, 10_000) + `{}]`},
		{"PATCH", maps + "/web", apply, `{"apiVersion":"v1","kind":"ConfigMap"}`},
		{"PATCH", maps + "/web?fieldManager=m", apply, `a: [b`},
		{"PATCH", maps + "/web?fieldManager=m", apply, `{"kind":"ConfigMap"}`},
		{"PATCH", maps + "/web?fieldManager=m", apply, `{"apiVersion":"v1","kind":"Pod"}`},
		{"PATCH", maps + "/web?fieldManager=m", apply, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"other"}}`},
		{"PATCH", maps + "/web?fieldManager=m", apply, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"managedFields":[{}]}}`},
		{"PATCH", maps + "/web?fieldManager=m", apply, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"web","uid":"x"}}`},
		{"PATCH", maps + "/nothing", merge, `{}`},
		{"PATCH", maps + "/nothing?fieldManager=m", apply, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"nothing","uid":"x"}}`},
		{"DELETE", maps + "/nothing", "", ``},
		{"DELETE", maps + "/web", "", `{`},
		{"DELETE", maps + "/web", "", `[]`},
		{"DELETE", maps + "/web", "", `{"kind":"Pod","apiVersion":"v1"}`},
		{"DELETE", maps + "/web", "", fmt.Sprintf(options, `"preconditions":{"uid":"x"}`)},
		{"DELETE", maps + "/web", "", fmt.Sprintf(options, `"preconditions":{"resourceVersion":"1"}`)},
		{"DELETE", maps + "/web", "", fmt.Sprintf(options, `"propagationPolicy":"Maybe"`)},
		{"DELETE", maps + "/web", "", fmt.Sprintf(options, `"propagationPolicy":"Orphan","orphanDependents":true`)},
		{"DELETE", maps + "/web", "", fmt.Sprintf(options, `"dryRun":["Some"]`)},
		{"DELETE", maps + "/web?propagationPolicy=Maybe", "", ``},
		{"DELETE", maps + "/web?gracePeriodSeconds=x", "", ``},
		{"DELETE", maps + "?propagationPolicy=Maybe", "", ``},
		{"DELETE", maps + "?labelSelector=a+in+(", "", ``},
		{"DELETE", maps + "?fieldSelector=data.a%3Db", "", ``},
		{"DELETE", maps + "/web", "text/plain", `x`},
		{"GET", maps + "/nothing", "", ``},
		{"GET", "/api/v1/namespaces/default/nothings", "", ``},
		{"GET", "/api/v1/namespaces/default/configmaps/web/status", "", ``},
		{"GET", "/api/v1/namespaces/default/configmaps/web/nothing", "", ``},
		{"GET", "/api/v1/namespaces/default/nodes", "", ``},
		{"GET", "/api/v1/configmaps/web", "", ``},
		{"GET", "/api/v2/configmaps", "", ``},
		{"GET", "/apis/nothing.example.com/v1", "", ``},
		{"GET", "/nothing", "", ``},
		{"GET", maps + "/web?resourceVersion=x", "", ``},
		{"OPTIONS", maps, "", ``},
		{"TRACE", maps, "", ``},
		{"POST", "/api/v1/nodes/nothing/nothing", "", `{}`},
		{"PUT", "/api/v1/namespaces/default/pods/nothing/binding", "", `{}`},
		{"POST", "/api/v1/namespaces/default/pods/nothing/binding", "", `{"target":{"name":"node"}}`},
		{"POST", "/api/v1/namespaces/default/pods/nothing/eviction", "", `{}`},
		{"PUT", "/apis/apps/v1/namespaces/default/deployments/nothing/scale", "", `{}`},
	}
	for _, query := range []string{
		"resourceVersion=x", "resourceVersion=-1", "resourceVersion=1.5", "resourceVersion=%2B1", "resourceVersion=99999999999999999999",
		"resourceVersionMatch=Exact", "resourceVersionMatch=NotOlderThan", "resourceVersionMatch=Maybe", "resourceVersion=1&resourceVersionMatch=Maybe",
		"resourceVersion=0&resourceVersionMatch=Exact", "continue=x&resourceVersionMatch=Exact&resourceVersion=1", "continue=x&resourceVersion=1",
		"continue=%00%ff", "continue=Zm9yZ2Vk", "continue=eyJ2IjoibWV0YS5rOHMuaW8vdjEiLCJydiI6MSwic3RhcnQiOiIuLi9zZWNyZXRzLyJ9",
		"labelSelector=a+in+(", "labelSelector=%3D%3D%3D", "labelSelector=-a", "labelSelector=a%3D" + strings.Repeat("x", 64), "labelSelector=a%3D%FF",
		"fieldSelector=metadata.name", "fieldSelector=data.k%3Dv", "fieldSelector=metadata.name%3Da%5C", "fieldSelector=%3Dx",
		"limit=x", "limit=99999999999999999999", "timeoutSeconds=x", "watch=maybe", "sendInitialEvents=true", "sendInitialEvents=maybe",
		"watch=true&sendInitialEvents=true", "watch=true&sendInitialEvents=true&resourceVersionMatch=Exact", "watch=true&resourceVersionMatch=NotOlderThan",
		"watch=true&resourceVersion=x", "watch=true&resourceVersion=-1", "watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&continue=x",
		"watch=true&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&resourceVersion=x&timeoutSeconds=1",
		"watch=true&fieldSelector=data.k%3Dv", "watch=true&labelSelector=a+in+(", "watch=true&continue=x&timeoutSeconds=1",
	} {
		if strings.Contains(query, "watch=") {
			query += "&timeoutSeconds=1"
		}
		out = append(out, question{"GET", maps + "?" + query, "", ""})
	}
	return out
}

// ask returns the code and the text of the Status.
func (s *server) ask(q question) (code int, text string) {
	s.t.Helper()
	ctx, cancel := context.WithTimeout(s.t.Context(), 5*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, q.method, s.base+q.path, strings.NewReader(q.body))
	if err != nil {
		s.t.Fatal(err)
	}
	if r.Header.Set("Content-Type", "application/json"); q.media != "" {
		r.Header.Set("Content-Type", q.media)
	}
	answer, err := s.web.Do(r)
	if err != nil {
		s.t.Fatal(err)
	}
	defer answer.Body.Close()
	if answer.StatusCode < 400 {
		return answer.StatusCode, "" // possibly a watch
	}
	data, err := io.ReadAll(answer.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	return answer.StatusCode, fmt.Sprintf("%.500s", data)
}

// deliberate reports whether planekit's code differs intentionally.
func deliberate(q question, ours, theirs int) bool {
	switch {
	case theirs >= 500:
		return ours >= 400 && ours < 500 // it is the client's error
	case q.method == "PATCH" && theirs == 422:
		return ours == 400 || ours == 409 // as for the same object by PUT
	case strings.HasSuffix(q.path, "/binding") || strings.HasSuffix(q.path, "/eviction") || strings.HasSuffix(q.path, "/scale"):
		return ours == 404 && theirs == 400 // the body may leave out the name in the URL
	case strings.Contains(q.body, `"finalizers":["x"]`):
		return ours == 201 && theirs == 422 // as kube-apiserver has it for custom resources
	}
	return false
}

// TestAnswers: an invalid request has the same code as in kube-apiserver.
func TestAnswers(t *testing.T) {
	work, files := startEtcd(t)
	theirs, stop := stock(t, files, work)
	defer stop()
	api := apiservertest.Start(t, apiservertest.WithResources(kube.Resources()...))
	ours := &server{t, api.As("admin", user.Masters), "http://memory"}
	for _, s := range []*server{theirs, ours} {
		s.do("POST", maps, configMap("web", `,"data":{"k":"v"}`), http.StatusCreated)
	}
	for _, q := range questions() {
		want, theirText := theirs.ask(q)
		got, ourText := ours.ask(q)
		if got != want && !deliberate(q, got, want) {
			t.Errorf("%s %.200s %s %.150s: %d %s\nwant %d %s", q.method, q.path, q.media, q.body, got, ourText, want, theirText)
		}
	}
}
