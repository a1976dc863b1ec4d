//go:build definitions

package crd

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// bottles returns the definition of a resource whose versions, which the strategy None converts, have different fields
// and defaults. Its objects are stored as v2.
func bottles() string {
	field := func(kind string, more ...string) string {
		return fmt.Sprintf(`{"type":%q%s}`, kind, strings.Join(more, ""))
	}
	version := func(name string, storage bool, spec, status string) string {
		return fmt.Sprintf(`{"name":%q,"served":true,"storage":%t,"subresources":{"status":{},"scale":{"specReplicasPath":".spec.n","statusReplicasPath":".status.n"}},
			"schema":{"openAPIV3Schema":{"type":"object","properties":{"spec":{"type":"object","properties":{%s}},"status":{"type":"object","properties":{%s}}}}}}`, name, storage, spec, status)
	}
	open := `,"x-kubernetes-preserve-unknown-fields":true`
	return `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","metadata":{"name":"bottles.example.com"},"spec":{"group":"example.com",
		"scope":"Namespaced","names":{"plural":"bottles","kind":"Bottle"},"versions":[` +
		version("v1", false, `"n":`+field("integer")+`,"a":`+field("string")+`,"both":`+field("string")+`,"d":`+field("string", `,"default":"one"`)+
			`,"any":`+field("object", open)+`,"part":`+field("object", open)+`,"null":`+field("string", `,"nullable":true`)+`,"e":`+field("string", `,"default":"only"`)+
			`,"list":{"type":"array","items":`+field("object", open)+`}`,
			`"n":`+field("integer")+`,"a":`+field("string")) + "," +
		version("v2", true, `"n":`+field("integer")+`,"b":`+field("string")+`,"both":`+field("string")+`,"d":`+field("string", `,"default":"two"`)+
			`,"any":`+field("object", open)+`,"part":`+field("object", `,"properties":{"x":`+field("string")+`,"y":`+field("string", `,"default":"why"`)+`}`)+`,"null":`+field("string", `,"default":"none"`)+
			`,"more":`+field("string", `,"default":"more"`)+
			`,"list":{"type":"array","items":`+field("object", `,"properties":{"x":`+field("string")+`,"y":`+field("string", `,"default":"why"`)+`}`)+`}`,
			`"n":`+field("integer")+`,"b":`+field("string")) +
		`]}}`
}

// TestRealVersions compares the answers to writes in a version that is not stored with those of kube-apiserver, and what
// is read and watched afterwards.
func TestRealVersions(t *testing.T) {
	sides := twoSides(t)
	for i, s := range sides {
		s.install(bottles())
		if i == 0 {
			s.awaitCaches("bottles")
		}
	}
	const v1, v2 = "/apis/example.com/v1/namespaces/default/bottles", "/apis/example.com/v2/namespaces/default/bottles"
	const full = `{"n":1,"a":"x","b":"x","both":"x","any":{"q":1},"part":{"x":"p","z":{"w":1}},"null":null,"list":[{"x":"1","z":2},{}]}`
	var watches []*watch
	for _, s := range sides {
		for _, path := range []string{v1, v2} {
			watches = append(watches, s.watch(path))
		}
	}
	bottle := func(version, name, spec string) string { return object(version, "Bottle", name, spec) }
	withStatus := func(version, name, spec string) string {
		return strings.TrimSuffix(bottle(version, name, spec), "}") + `,"status":{"n":2,"a":"s","b":"s"}}`
	}
	for _, r := range []request{
		{"POST", v1 + "?dryRun=All", bottle("v1", "one", full), ""},
		{"POST", v1, bottle("v1", "one", full), ""},
		{"POST", v1, bottle("v1", "empty", `{}`), ""},
		{"POST", v1, `{"apiVersion":"example.com/v1","kind":"Bottle","metadata":{"name":"bare"}}`, ""},
		{"POST", v1 + "?fieldValidation=Strict", bottle("v1", "one", full), ""},
		{"POST", v2, bottle("v2", "two", full), ""},
		{"PATCH", v1 + "/one?dryRun=All", `{"spec":{"a":"y","d":null}}`, mergePatch},
		{"PATCH", v1 + "/one", `{"spec":{"a":"y","d":null}}`, mergePatch},
		{"PATCH", v1 + "/one", `{"spec":{"a":"y","d":null}}`, mergePatch},
		{"PATCH", v1 + "/two", `{"metadata":{"labels":{"l":"m"}}}`, mergePatch},
		{"PATCH", v1 + "/two", `[{"op":"add","path":"/spec/part/z","value":{}},{"op":"replace","path":"/spec/both","value":"z"}]`, jsonPatch},
		{"PUT", v1 + "/one", "", ""},
		{"PUT", v1 + "/one?dryRun=All", "", ""},
		{"PATCH", v1 + "/three?fieldManager=m", bottle("v1", "three", `{"a":"x","both":"x","part":{"x":"1","z":{"w":1}}}`), applyPatch},
		{"PATCH", v1 + "/three?fieldManager=m", bottle("v1", "three", `{"a":"x","both":"x","part":{"x":"1","z":{"w":1}}}`), applyPatch},
		{"PATCH", v1 + "/three?fieldManager=m3", bottle("v1", "three", `{"a":"w"}`), applyPatch},
		{"PATCH", v1 + "/three?fieldManager=m3&dryRun=All&force=true", bottle("v1", "three", `{"a":"w"}`), applyPatch},
		{"PATCH", v1 + "/three?fieldManager=m3&force=true", bottle("v1", "three", `{"a":"w"}`), applyPatch},
		{"PATCH", v2 + "/five?fieldManager=m", bottle("v2", "five", `{"b":"x","more":"x"}`), applyPatch},
		{"PATCH", v1 + "/one/status", `{"status":{"n":3,"a":"s","b":"s"}}`, mergePatch},
		{"PATCH", v2 + "/two/status", `{"status":{"n":3,"a":"s","b":"s"}}`, mergePatch},
		{"PATCH", v1 + "/two/scale", `{"spec":{"replicas":5}}`, mergePatch},
		{"POST", v1, withStatus("v1", "four", full), ""},
		{"PATCH", v1 + "/four", `{"metadata":{"finalizers":["example.com/f"]}}`, mergePatch},
		{"DELETE", v1 + "/four", "", ""},
		{"PATCH", v1 + "/four", `{"metadata":{"finalizers":null}}`, mergePatch},
		{"DELETE", v2 + "/two", "", ""},
		{"DELETE", v1 + "/bare", "", ""},
	} {
		if r.method == "PUT" {
			for _, s := range sides {
				now := s.want(200, "GET", v1+"/one", "")
				now["spec"].(map[string]any)["a"] = "put"
				now["spec"].(map[string]any)["part"] = map[string]any{"z": 1}
				data, _ := json.Marshal(now)
				s.put = string(data)
			}
		}
		compareOwnerless(t, sides, "bottles", r)
		for _, name := range []string{"one", "two", "three", "four", "five", "bare", "empty"} {
			for _, path := range []string{v1, v2} {
				compareOwnerless(t, sides, "after "+r.method+" "+r.path, request{"GET", path + "/" + name, "", ""})
			}
		}
	}
	compareOwnerless(t, sides, "bottles", request{"GET", v1, "", ""})
	for i := range 2 {
		n := len(watches) / 2
		theirs, ours := watches[i].events(t), watches[n+i].events(t)
		if theirs != ours {
			t.Errorf("events of version %d: %s\nwant %s", i+1, ours, theirs)
		}
	}
}

// compareOwnerless compares answers without managedFields. kube-apiserver loses those of an object with a field that the
// version of one of its managers does not have.
func compareOwnerless(t *testing.T, sides []*side, what string, r request) {
	t.Helper()
	var got []string
	for _, s := range sides {
		answer, code := s.do(r.method, r.path, r.body, "Content-Type: "+r.contentType())
		withoutOwners(answer)
		got = append(got, sameAnswer(answer, code))
	}
	if got[0] != got[1] {
		t.Errorf("%s: %s %s %s: %s\nwant %s", what, r.method, r.path, r.body, got[1], got[0])
	}
}

func withoutOwners(v any) {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "managedFields")
		for _, one := range v {
			withoutOwners(one)
		}
	case []any:
		for _, one := range v {
			withoutOwners(one)
		}
	}
}

// watch is a watch of one side.
type watch struct{ body io.ReadCloser }

func (s *side) watch(path string) *watch {
	s.t.Helper()
	r, err := http.NewRequestWithContext(s.t.Context(), "GET", s.base+path+"?watch=true&timeoutSeconds=5", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	if s.token != "" {
		r.Header.Set("Authorization", "Bearer "+s.token)
	}
	response, err := s.client.Do(r)
	if err != nil || response.StatusCode != http.StatusOK {
		s.t.Fatalf("%v %v", response, err)
	}
	return &watch{response.Body}
}

// events returns the events until the watch ends.
func (w *watch) events(t *testing.T) string {
	t.Helper()
	defer w.body.Close()
	var out strings.Builder
	for lines := json.NewDecoder(w.body); ; {
		var event map[string]any
		if err := lines.Decode(&event); err == io.EOF {
			return out.String()
		} else if err != nil {
			t.Fatal(err)
		}
		withoutOwners(event)
		fmt.Fprintln(&out, sameAnswer(event, 0))
	}
}
