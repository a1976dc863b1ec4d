package extender_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/planekit/planekit/schedule"
)

// FuzzAnswers reads any answer to each question. What comes out is about the nodes that were asked about,
// and bounded.
func FuzzAnswers(f *testing.F) {
	for _, answer := range []string{
		`{"NodeNames":["a"],"FailedNodes":{"b":"no"},"FailedAndUnresolvableNodes":{"c":"never"}}`,
		`{"Nodes":{"items":[{"metadata":{"name":"b"}}]}}`,
		`[{"Host":"a","Score":10},{"Host":"a","Score":-9223372036854775808}]`,
		`{"NodeNameToMetaVictims":{"a":{"Pods":[{"UID":"x"},null],"NumPDBViolations":1},"b":null}}`,
		`{"Error":"no"}`, `null`, `[[`, "\xff",
	} {
		f.Add(answer, true)
		f.Add(answer, false)
	}
	asked := []string{"a", "b", "c"}
	f.Fuzz(func(t *testing.T, answer string, byName bool) {
		change := capable
		if !byName {
			change = nil
		}
		e := scripted(t, &script{answer: answer}, change)
		accepted, refused, err := e.Filter(t.Context(), web(), nodes(asked...))
		if err == nil {
			checkFilter(t, asked, accepted, refused)
		}
		scores, err := e.Prioritize(t.Context(), web(), nodes(asked...))
		if err == nil && len(scores) != len(asked) {
			t.Errorf("scores %v", scores)
		}
		for node, score := range scores {
			if !strings.Contains("abc", node) || score > 1<<50 || score < -1<<50 {
				t.Errorf("%s has the score %d", node, score)
			}
		}
		_, _ = e.Preempt(t.Context(), web(), nil)
		if err := e.Bind(t.Context(), web(), "a"); err != nil && len(err.Error()) > 2000 {
			t.Errorf("an error of %d bytes", len(err.Error()))
		}
	})
}

// checkFilter checks that each node is either accepted or refused, with a bounded reason.
func checkFilter(t *testing.T, asked, accepted []string, refused map[string]schedule.Verdict) {
	t.Helper()
	seen := map[string]bool{}
	for _, node := range accepted {
		if seen[node] {
			t.Errorf("%s is accepted twice", node)
		}
		seen[node] = true
	}
	for node, v := range refused {
		if seen[node] || v.OK() || v.Reasons[0] == "" || len(v.Reasons[0]) > 512 {
			t.Errorf("%s is refused: %v", node, v)
		}
		seen[node] = true
	}
	for _, node := range asked {
		delete(seen, node)
	}
	if len(accepted)+len(refused) != len(asked) || len(seen) > 0 {
		t.Errorf("accepted %v, refused %v", accepted, refused)
	}
}

// FuzzQuestions answers any question.
func FuzzQuestions(f *testing.F) {
	for _, verb := range []string{"filter", "prioritize", "preempt", "bind"} {
		for _, question := range []string{
			`{"Pod":{"metadata":{"name":"web"}},"NodeNames":["a","b","c"]}`, `{"Pod":{},"Nodes":{"items":[{"metadata":{"name":"a"}}]}}`,
			`{"Pod":{},"NodeNameToMetaVictims":{"a":{"Pods":[null]}}}`, `{"PodName":"web","Node":"a"}`, `null`, `[[`,
		} {
			f.Add(verb, question)
		}
	}
	f.Fuzz(func(t *testing.T, verb, question string) {
		r := httptest.NewRequest("POST", "/", strings.NewReader(question))
		r.URL.Path = "/" + verb
		w := httptest.NewRecorder()
		letters.ServeHTTP(w, r)
		switch w.Code {
		case 200, 400, 404, 413, 500:
		default:
			t.Errorf("POST /%s with %q: %d %s, want 200, 400, 404, 413 or 500", verb, question, w.Code, w.Body)
		}
	})
}
