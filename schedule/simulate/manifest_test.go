package simulate_test

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/schedule/simulate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func readManifests(t *testing.T, text string) *simulate.Workload {
	t.Helper()
	w, err := simulate.ReadManifests("m.yaml", strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestReadManifests reads documents of YAML and JSON and simulates them.
func TestReadManifests(t *testing.T) {
	text, err := os.ReadFile("testdata/cluster.yaml")
	if err != nil {
		t.Fatal(err)
	}
	w := readManifests(t, string(text))
	var have []string
	for _, n := range w.Nodes {
		have = append(have, fmt.Sprint(n.Name, " ", n.Labels, " ", n.Status.Allocatable.Cpu(), " ", n.Status.Allocatable.Pods()))
	}
	for _, a := range w.Arrivals {
		spec := a.Pod.Spec
		var priority int32
		if spec.Priority != nil {
			priority = *spec.Priority
		}
		r := spec.Containers[0].Resources.Requests
		have = append(have, fmt.Sprint(a.Pod.Namespace, "/", a.Pod.Name, " ", a.At, " ", a.Duration, " ", a.Recreate, " ", r.Cpu(), " ", r.Memory(), " ", priority))
	}
	web := " 1.5s 1m0s true 1 1Gi 100\n"
	want := "a map[disk:ssd kubernetes.io/hostname:a] 4 110\nb map[kubernetes.io/hostname:b] 7 10\n" +
		"default/web-0" + web + "default/web-1" + web + "default/web-2" + web + "prod/db 0s 0s false 2 0 0"
	if got := strings.Join(have, "\n"); got != want {
		t.Errorf("have\n%s\nwant\n%s", got, want)
	}
	if *w.Arrivals[0].Pod.Spec.PreemptionPolicy != corev1.PreemptNever || len(w.Budgets) != 1 || len(w.Namespaces) != 1 || w.Ignored["Service"] != 1 {
		t.Errorf("the workload has PreemptionPolicy %s, %d budgets, %d namespaces and %d Services ignored, want Never and 1 each",
			*w.Arrivals[0].Pod.Spec.PreemptionPolicy, len(w.Budgets), len(w.Namespaces), w.Ignored["Service"])
	}
	if r := run(t, w, simulate.Policy{}); r.Count(simulate.Ended) != 3 || r.Count(simulate.Running) != 1 || r.Pods[0].Node != "a" {
		t.Error(describe(r))
	}
}

// TestLongExponent checks that text that only contains a number with a long exponent is no such number.
func TestLongExponent(t *testing.T) {
	readManifests(t, `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","annotations":{"a":"x 1e99999","b":"\"1e99999\"","c":"1e99999x","d":"1e999"}}}`)
}

// TestSnapshot reads a list as kubectl writes it of a cluster. Pods on nodes are there, those that have ended
// are not; the older of two that wait is first; and controllers make no more pods than there are.
func TestSnapshot(t *testing.T) {
	created := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	var items []any
	for _, n := range simulate.Uniform(1, "4", "8Gi") {
		n.APIVersion, n.Kind = "v1", "Node"
		items = append(items, n)
	}
	add := func(name string, age time.Duration, change func(*corev1.Pod)) {
		p := pod(name, "2", "1Gi")
		p.APIVersion, p.Kind, p.UID = "v1", "Pod", "uid-of-"+p.UID
		p.CreationTimestamp = metav1.NewTime(created.Add(-age))
		p.Spec.Priority = new(int32)
		change(p)
		items = append(items, p)
	}
	add("young", time.Minute, func(*corev1.Pod) {})
	add("old", time.Hour, func(*corev1.Pod) {})
	add("here", 2*time.Hour, func(p *corev1.Pod) { p.Spec.NodeName = "node-00000" })
	add("done", 2*time.Hour, func(p *corev1.Pod) { p.Spec.NodeName, p.Status.Phase = "node-00000", corev1.PodSucceeded })
	add("gone", 2*time.Hour, func(p *corev1.Pod) { p.DeletionTimestamp = &metav1.Time{Time: created} })
	items = append(items, json.RawMessage(`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d","uid":"1"},"spec":{"replicas":5,"template":{}}}`))
	text, err := json.MarshalIndent(map[string]any{"apiVersion": "v1", "kind": "List", "items": items}, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	r := run(t, readManifests(t, string(text)), simulate.Policy{})
	want := `young pending node="" arrived=0s placed=0s ended=0s attempts=1
old running node="node-00000" arrived=0s placed=0s ended=0s attempts=1
here running node="node-00000" arrived=0s placed=0s ended=0s attempts=0
`
	if have := describe(r); have != want {
		t.Errorf("have\n%swant\n%s", have, want)
	}
}

// TestReadManifestsErrors checks that errors name the file, the line of the document and the object.
func TestReadManifestsErrors(t *testing.T) {
	pod := func(spec string) string {
		return `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":` + spec + `}`
	}
	for text, want := range map[string]string{
		"a: b\n":                         "m.yaml:1: an object has no apiVersion or no kind",
		"# nothing\n---\n\n--- \n[1]":    "m.yaml:5: json: cannot unmarshal",
		"---\n{]":                        "m.yaml:2: invalid character",
		pod(`{"priorityClassName":"x"}`): `m.yaml: pod default/p: there is no priority class "x"`,
		pod(`{"containers":[{"resources":{"limits":{"cpu":"-1"}}}]}`):                                                       "m.yaml:1: Pod p: cpu is negative",
		pod(`{"containers":[{"resources":{"limits":{"cpu":"1e-9999999"}}}]}`):                                               "m.yaml:1: a number with an exponent of more than three digits",
		pod(`{"containers":[{"resources":{"limits":{"cpu":1.5E+9999999}}}]}`):                                               "m.yaml:1: a number with an exponent of more than three digits: 1.5E+9999999",
		"a: [\"x\\\" 1\", -1e99999]\n":                                                                                      "m.yaml:1: a number with an exponent of more than three digits: -1e99999",
		pod(`{"containers":[{"resources":{"limits":{"cpu":"1e999"}}}]}`):                                                    "m.yaml:1: Pod p: cpu is more than 1e100",
		pod(`{"containers":[{"resources":{"limits":{"cpu":"many"}}}]}`):                                                     "m.yaml:1: Pod p: quantities must match",
		pod(`{"containers":3}`):                                                                                             "m.yaml:1: Pod p: json: cannot unmarshal",
		`{"apiVersion":"v1","kind":"Pod"}`:                                                                                  "m.yaml:1: Pod : it has no name",
		`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","annotations":{"planekit.io/arrival-seconds":"-1"}}}`:       `m.yaml:1: Pod p: annotation planekit.io/arrival-seconds: "-1" seconds are not`,
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"replicas":2147483647,"template":{}}}`: "m.yaml:1: Deployment d: there are more than 2000000 pods",
		`{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"d"},"spec":{"replicas":-1,"template":{}}}`:         "m.yaml:1: Deployment d: -1 replicas",
		`{"apiVersion":"v1","kind":"PodList","items":[{"metadata":{"name":"p"},"spec":{"containers":3}}]}`:                  "m.yaml:1: item 0 of a PodList: Pod p: json: cannot unmarshal",
		strings.Repeat(`{"apiVersion":"v1","kind":"List","items":[`, 6) + strings.Repeat(`]}`, 6):                           "m.yaml:1: item 0 of a List: item 0 of a List: item 0 of a List: item 0 of a List: lists are in lists too often",
		"a: &a [x,x,x,x,x,x,x,x,x]\nb: &b [*a,*a,*a,*a,*a,*a,*a,*a,*a]\nc: &c [*b,*b,*b,*b,*b,*b,*b,*b,*b]\nd: &d [*c,*c,*c,*c,*c,*c,*c,*c,*c]\ne: &e [*d,*d,*d,*d,*d,*d,*d,*d,*d]\nf: &f [*e,*e,*e,*e,*e,*e,*e,*e,*e]\ng: &g [*f,*f,*f,*f,*f,*f,*f,*f,*f]\nh: &h [*g,*g,*g,*g,*g,*g,*g,*g,*g]\n": "m.yaml:1: ",
		strings.Repeat("[", 20000): "m.yaml:1: ",
	} {
		_, err := simulate.ReadManifests("m.yaml", strings.NewReader(text))
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.200q: have %v, want %s", text, err, want)
		}
	}
}

// FuzzReadManifests checks that a manifest is an error or a workload that Run takes or refuses.
func FuzzReadManifests(f *testing.F) {
	text, err := os.ReadFile("testdata/cluster.yaml")
	if err != nil {
		f.Fatal(err)
	}
	for one := range strings.SplitSeq(string(text), "---\n") {
		f.Add(one)
	}
	f.Add(`{"apiVersion":"v1","kind":"List","items":[{"apiVersion":"v1","kind":"Node","metadata":{"name":"a"}}]}`)
	f.Fuzz(func(t *testing.T, text string) {
		w, err := simulate.ReadManifests("f.yaml", strings.NewReader(text))
		if err != nil {
			if !strings.HasPrefix(err.Error(), "f.yaml:") {
				t.Error(err)
			}
			return
		}
		if len(w.Arrivals) < 100 {
			_, _ = simulate.Run(t.Context(), w, simulate.Policy{Preempt: true})
		}
	})
}
