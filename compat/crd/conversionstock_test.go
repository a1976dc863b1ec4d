//go:build definitions

package crd

import (
	"bufio"
	"cmp"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/apiserver/apiservertest"
	"github.com/planekit/planekit/apiserver/crd"
	"github.com/planekit/planekit/compat/stock"
)

// twoSides starts a stock kube-apiserver and ours, which serves definitions alone.
func twoSides(t *testing.T) []*side {
	t.Helper()
	return sidesOf(t, apiservertest.Start(t, apiservertest.WithResources(crd.Resource(nil))))
}

// sidesOf starts a stock kube-apiserver beside s.
func sidesOf(t *testing.T, s *apiservertest.Server) []*side {
	t.Helper()
	bin, err := filepath.Abs("../../bin/stock")
	if err != nil {
		t.Fatal(err)
	}
	web := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	t.Cleanup(web.CloseIdleConnections)
	theirs := stock.NewServer(t, bin)
	serveDefinitions(t, s)
	return []*side{
		{t: t, client: web, base: theirs.URL, token: theirs.Token},
		{t: t, client: s.Client(), base: s.URL},
	}
}

// times matches the times in objects.
var times = regexp.MustCompile(`"20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ"`)

// sameAnswer returns an answer without what differs between two servers: times, UIDs, revisions, and the details of an error.
func sameAnswer(answer map[string]any, code int) string {
	if answer["kind"] == "Status" && code >= 400 {
		delete(answer, "details")
	}
	clean(answer)
	data, _ := json.MarshalIndent(answer, "", " ")
	return fmt.Sprintf("%d %s", code, times.ReplaceAllString(sameText(string(data)), `"TIME"`))
}

func clean(v any) {
	switch v := v.(type) {
	case map[string]any:
		delete(v, "resourceVersion")
		if v["continue"] == "" {
			delete(v, "continue")
		} else if v["continue"] != nil {
			v["continue"] = "TOKEN"
		}
		for _, one := range v {
			clean(one)
		}
	case []any:
		for _, one := range v {
			clean(one)
		}
	}
}

type request struct{ method, path, body, media string }

// contentType returns the media type of the body, which is JSON if r names none.
func (r request) contentType() string { return cmp.Or(r.media, "application/json") }

const (
	mergePatch = "application/merge-patch+json"
	jsonPatch  = "application/json-patch+json"
	applyPatch = "application/apply-patch+yaml"
)

func object(version, kind, name, spec string) string {
	return fmt.Sprintf(`{"apiVersion":"example.com/%s","kind":%q,"metadata":{"name":%q,"namespace":"default"},"spec":%s}`, version, kind, name, spec)
}

// requests are sent to both sides, in order, for objects of a kind.
func requests(kind string) []request {
	v1, v2 := "/apis/example.com/v1/namespaces/default/"+strings.ToLower(kind)+"s", "/apis/example.com/v2/namespaces/default/"+strings.ToLower(kind)+"s"
	return []request{
		{"POST", v1, object("v1", kind, "one", `{"a":"x","n":1}`), ""},
		{"POST", v1, object("v1", kind, "two", `{"a":"y"}`), ""},
		{"GET", v2 + "/one", "", ""},
		{"GET", v2, "", ""},
		{"GET", v2 + "?limit=1", "", ""},
		{"GET", v2 + "/one/scale", "", ""},
		{"POST", v2 + "?dryRun=All", object("v2", kind, "three", `{"b":"z"}`), ""},
		{"POST", v2, object("v2", kind, "three", `{"b":"z"}`), ""},
		{"GET", v1 + "/three", "", ""},
		{"PATCH", v2 + "/three", `{"spec":{"b":"w","n":2,"unknown":1}}`, mergePatch},
		{"PATCH", v2 + "/one", `{"spec":{"b":"p"}}`, mergePatch},
		{"PATCH", v2 + "/one?fieldManager=m", object("v2", kind, "one", `{"b":"q"}`), applyPatch},
		{"PATCH", v2 + "/one?fieldManager=m&force=true", object("v2", kind, "one", `{"b":"q"}`), applyPatch},
		{"PATCH", v1 + "/one?fieldManager=m1&force=true", object("v1", kind, "one", `{"a":"r"}`), applyPatch},
		{"PATCH", v2 + "/four?fieldManager=m", object("v2", kind, "four", `{"b":"new"}`), applyPatch},
		{"PATCH", v2 + "/one/status", `{"status":{"n":3}}`, mergePatch},
		{"GET", v1 + "/one", "", ""},
		{"PUT", v1 + "/one", object("v1", kind, "one", `{"a":"s"}`), ""},
		{"PUT", v2 + "/one/status", object("v2", kind, "one", `{"b":"s"}`), ""},
		{"PUT", v1 + "/none", object("v1", kind, "none", `{"a":"s"}`), ""},
		{"PUT", v1 + "/one/scale?dryRun=All", `{"apiVersion":"autoscaling/v1","kind":"Scale","metadata":{"name":"one","namespace":"default"},"spec":{"replicas":4}}`, ""},
		{"PATCH", v1 + "/one", `[{"op":"remove","path":"/metadata/resourceVersion"}]`, jsonPatch},
		{"GET", v2 + "?fieldSelector=spec.b%3Dr", "", ""},
		{"PATCH", v2 + "/two", `{"metadata":{"finalizers":["example.com/f"]}}`, mergePatch},
		{"DELETE", v2 + "/two", "", ""},
		{"PATCH", v2 + "/two", `{"metadata":{"finalizers":null}}`, mergePatch},
		{"DELETE", v2 + "/three", "", ""},
		{"GET", v1, "", ""},
		{"DELETE", v2, "", ""},
		{"GET", v1, "", ""},
	}
}

// TestRealConversion compares the answers of a stock kube-apiserver and of ours to the same requests for objects that a
// webhook converts: one that is good, that fails from the start, that is dead, and that lies in every way.
func TestRealConversion(t *testing.T) {
	h, sides := startHook(t), twoSides(t)
	dead := "https://127.0.0.1:1"
	for _, test := range []struct{ kind, mode, reviews, at string }{
		{"Lamp", "good", "v1", h.URL}, {"Torch", "good", "v1beta1", h.URL}, {"Candle", "failure", "v1", h.URL}, {"Match", "good", "v1", dead},
	} {
		for i, s := range sides {
			h.mode.Store("good")
			s.install(lamps(test.kind, test.reviews, test.at, h.bundle()))
			if i == 0 {
				s.awaitCaches(strings.ToLower(test.kind) + "s")
			}
		}
		h.mode.Store(test.mode)
		for _, r := range requests(test.kind) {
			compareAnswers(t, sides, test.kind, r)
		}
	}
	v1, v2 := "/apis/example.com/v1/namespaces/default/lamps", "/apis/example.com/v2/namespaces/default/lamps"
	for _, mode := range append(slices.Sorted(maps.Keys(changes)), slices.Sorted(maps.Keys(answers))...) {
		name := strings.ReplaceAll(strings.ToLower(mode), " ", "-")
		h.mode.Store("good")
		compareAnswers(t, sides, mode, request{"POST", v1, object("v1", "Lamp", name, `{"a":"x"}`), ""})
		h.mode.Store(mode)
		compareAnswers(t, sides, mode, request{"GET", v2 + "/" + name, "", ""})
		if mode != "items in an object" && mode != "five megabytes" { // etcd takes 2 MB
			compareAnswers(t, sides, mode, request{"POST", v2, object("v2", "Lamp", name+"-2", `{"b":"x"}`), ""})
		}
	}
	h.mode.Store("good")
	countQuestions(t, h, sides)
	watchFailure(t, h, sides)
}

func compareAnswers(t *testing.T, sides []*side, what string, r request) {
	t.Helper()
	var got []string
	for _, s := range sides {
		got = append(got, sameAnswer(s.do(r.method, r.path, r.body, "Content-Type: "+r.contentType())))
	}
	if got[0] != got[1] {
		t.Errorf("%s: %s %s %s: %.3000s\nwant %.3000s", what, r.method, r.path, r.body, got[1], got[0])
	}
}

// awaitCaches waits until kube-apiserver has filled its caches of a new resource, which watches need.
func (s *side) awaitCaches(plural string) {
	s.t.Helper()
	await(s.t, plural, func() bool {
		for _, version := range []string{"v1", "v2"} {
			path := "/apis/example.com/" + version + "/namespaces/none/" + plural
			if _, code := s.do("GET", path+"?watch=true&resourceVersion=0&timeoutSeconds=1", ""); code != http.StatusOK {
				return false
			}
		}
		return true
	})
}

// countQuestions logs how often each side asks the webhook for a list.
func countQuestions(t *testing.T, h *hook, sides []*side) {
	for i, s := range sides {
		s.install(lamps("Bulb", "v1", h.URL, h.bundle()))
		const v1, v2 = "/apis/example.com/v1/namespaces/default/bulbs", "/apis/example.com/v2/namespaces/default/bulbs"
		before := h.asked.Load()
		for n := range 100 {
			s.want(201, "POST", v1, object("v1", "Bulb", fmt.Sprint("b", n), `{"a":"x"}`))
		}
		for range 3 {
			s.want(200, "GET", v2, "")
		}
		asked := h.asked.Load() - before
		t.Logf("%s: %d questions for 100 new objects and three lists of them", []string{"stock", "ours"}[i], asked)
		if i == 1 && asked != 1 {
			t.Errorf("ours asked %d times", asked)
		}
	}
}

// watchFailure: a watch of a version whose objects cannot be converted does not go on as if nothing had happened.
func watchFailure(t *testing.T, h *hook, sides []*side) {
	for i, s := range sides {
		h.mode.Store("good")
		list := s.want(200, "GET", "/apis/example.com/v2/namespaces/default/bulbs", "")
		r, err := http.NewRequestWithContext(t.Context(), "GET", s.base+"/apis/example.com/v2/namespaces/default/bulbs?watch=true&timeoutSeconds=5&resourceVersion="+
			list["metadata"].(map[string]any)["resourceVersion"].(string), nil)
		if err != nil {
			t.Fatal(err)
		}
		if s.token != "" {
			r.Header.Set("Authorization", "Bearer "+s.token)
		}
		response, err := s.client.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		h.mode.Store("failure")
		s.want(201, "POST", "/apis/example.com/v1/namespaces/default/bulbs", object("v1", "Bulb", "late", `{"a":"x"}`))
		lines := bufio.NewScanner(response.Body)
		var events []string
		for lines.Scan() {
			events = append(events, lines.Text())
		}
		response.Body.Close()
		t.Logf("%s: %q", []string{"stock", "ours"}[i], events)
		for _, e := range events {
			if strings.Contains(e, `"ADDED"`) {
				t.Errorf("%s shows %s", s.base, e)
			}
		}
	}
}
