package extender_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/planekit/planekit/schedule"
	"github.com/planekit/planekit/schedule/extender"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// direct carries requests to a handler.
type direct struct{ http.Handler }

func (d direct) RoundTrip(r *http.Request) (*http.Response, error) {
	w := httptest.NewRecorder()
	d.ServeHTTP(w, r)
	return w.Result(), nil
}

// letters accepts the node a, and the better the later its name is.
var letters = extender.Handler{
	Filter: func(p *corev1.Pod, n *corev1.Node) schedule.Verdict {
		switch n.Name {
		case "a", "d":
			return schedule.Fits
		case "b":
			return schedule.Refuse("no b", "for "+p.Name)
		}
		return schedule.RefuseAlways("never")
	},
	Prioritize: func(_ *corev1.Pod, n *corev1.Node) int64 { return int64(strings.Index("abcd", n.Name)) },
	Preempt: func(_ context.Context, args *extender.PreemptionArgs) (map[string]*extender.MetaVictims, error) {
		if len(args.NodeNameToMetaVictims) == 0 {
			return nil, errors.New("nothing to choose from")
		}
		delete(args.NodeNameToMetaVictims, "b")
		return args.NodeNameToMetaVictims, nil
	},
	Bind: func(_ context.Context, args *extender.BindingArgs) error {
		if args.Node != "a" {
			return errors.New("only a")
		}
		return nil
	},
}

// TestBothSides lets a client ask a handler.
func TestBothSides(t *testing.T) {
	for _, capable := range []bool{false, true} {
		client, err := extender.New(extender.Config{
			URLPrefix: "http://extender/v1", FilterVerb: "filter", PrioritizeVerb: "prioritize", PreemptVerb: "preempt", BindVerb: "bind",
			Weight: 1, NodeCacheCapable: capable, Transport: direct{letters},
		})
		if err != nil {
			t.Fatal(err)
		}
		e := client.Extender()
		accepted, refused, err := e.Filter(t.Context(), web(), nodes("a", "b", "c", "d"))
		wantRefused := map[string]schedule.Verdict{"b": schedule.Refuse("no b, for web"), "c": schedule.RefuseAlways("never")}
		if err != nil || !slices.Equal(accepted, []string{"a", "d"}) || !reflect.DeepEqual(refused, wantRefused) {
			t.Errorf("capable %t: %v, %v, %v", capable, accepted, refused, err)
		}
		if accepted, refused, err := e.Filter(t.Context(), web(), nodes("b")); err != nil || len(accepted) != 0 || len(refused) != 1 {
			t.Errorf("capable %t: %v, %v, %v", capable, accepted, refused, err)
		}
		scores, err := e.Prioritize(t.Context(), web(), nodes("a", "d"))
		if err != nil || !maps.Equal(scores, map[string]int64{"a": 0, "d": 30}) {
			t.Errorf("capable %t: %v, %v", capable, scores, err)
		}
		low := schedule.NewPodInfo(&corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "low", UID: "uid-low"}})
		found := []schedule.Preemption{{Node: "a", Victims: []*schedule.PodInfo{low}}, {Node: "b", Victims: []*schedule.PodInfo{low}}}
		victims, err := e.Preempt(t.Context(), web(), found)
		if !capable {
			if err == nil || !strings.HasPrefix(err.Error(), "failed preempt with extender at URL http://extender/v1/preempt, code 500") {
				t.Errorf("preempt without UIDs: %v", err)
			}
		} else if err != nil || !reflect.DeepEqual(victims, map[string]schedule.VictimUIDs{"a": {UIDs: []types.UID{"uid-low"}}}) {
			t.Errorf("Preempt() = %v, %v, want uid-low on a alone", victims, err)
		}
		if err := e.Bind(t.Context(), web(), "a"); err != nil {
			t.Error(err)
		}
		if err := e.Bind(t.Context(), web(), "b"); err == nil || err.Error() != "only a" {
			t.Error(err)
		}
	}
}

// TestHandlerRefuses answers bad questions.
func TestHandlerRefuses(t *testing.T) {
	small := letters
	small.MaxQuestion = 10
	for name, test := range map[string]struct {
		handler            extender.Handler
		method, path, body string
		code               int
	}{
		"GET":            {letters, "GET", "/filter", "", 405},
		"unknown verb":   {letters, "POST", "/filters", "{}", 404},
		"no verb":        {letters, "POST", "/", "{}", 404},
		"not for filter": {extender.Handler{}, "POST", "/filter", "{}", 404},
		"not JSON":       {letters, "POST", "/filter", "pod", 400},
		"empty":          {letters, "POST", "/filter", "", 400},
		"no pod":         {letters, "POST", "/filter", `{"NodeNames":["a"]}`, 400},
		"no nodes":       {letters, "POST", "/prioritize", `{"Pod":{}}`, 400},
		"no preemptor":   {letters, "POST", "/preempt", `{}`, 400},
		"too large":      {small, "POST", "/filter", `{"NodeNames":["a"]}`, 413},
		"deep":           {letters, "POST", "/filter", strings.Repeat("[", 20_000), 400},
	} {
		w := httptest.NewRecorder()
		test.handler.ServeHTTP(w, httptest.NewRequest(test.method, test.path, strings.NewReader(test.body)))
		if w.Code != test.code {
			t.Errorf("%s: %s %s: %d %s, want %d", name, test.method, test.path, w.Code, w.Body, test.code)
		}
	}
}
