package simulate_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/planekit/planekit/schedule/simulate"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// pod returns a pod of namespace default with one container.
func pod(name, cpu, memory string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Requests: corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse(cpu), corev1.ResourceMemory: resource.MustParse(memory),
		}}}}},
	}
}

// important sets the priority of a pod.
func important(p *corev1.Pod, priority int32) *corev1.Pod {
	p.Spec.Priority = &priority
	return p
}

func run(t *testing.T, w *simulate.Workload, p simulate.Policy) *simulate.Result {
	t.Helper()
	result, err := simulate.Run(t.Context(), w, p)
	if err != nil {
		t.Fatal(err)
	}
	return result
}

// describe returns a line for each pod.
func describe(r *simulate.Result) string {
	var b strings.Builder
	for _, p := range r.Pods {
		fmt.Fprintf(&b, "%s %s node=%q arrived=%v placed=%v ended=%v attempts=%d\n",
			strings.TrimPrefix(p.Pod, "default/"), p.Outcome, p.Node, p.Arrived, p.Placed, p.Ended, p.Attempts)
	}
	return b.String()
}

func second(n float64) time.Duration { return time.Duration(n * float64(time.Second)) }

// TestRun checks times, order and outcome of pods on one node with four cores.
func TestRun(t *testing.T) {
	gated := pod("gated", "1", "1Gi")
	gated.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/later"}}
	bound := pod("bound", "3", "1Gi")
	bound.Spec.NodeName = "node-00000"
	for _, test := range []struct {
		name     string
		arrivals []simulate.Arrival
		policy   simulate.Policy
		until    time.Duration
		want     string
	}{
		{"room frees up after the backoff", []simulate.Arrival{
			{Pod: pod("a", "4", "1Gi"), Duration: second(10)},
			{Pod: pod("b", "4", "1Gi"), At: second(9.5), Duration: second(5)},
		}, simulate.Policy{}, 0, `
a ended node="node-00000" arrived=0s placed=0s ended=10s attempts=1
b ended node="node-00000" arrived=9.5s placed=10.5s ended=15.5s attempts=2
`},
		{"the more important pod is first", []simulate.Arrival{
			{Pod: pod("a", "4", "1Gi"), Duration: second(10)},
			{Pod: pod("b", "4", "1Gi"), At: second(1), Duration: second(5)},
			{Pod: important(pod("c", "4", "1Gi"), 1), At: second(2), Duration: second(5)},
		}, simulate.Policy{}, 0, `
a ended node="node-00000" arrived=0s placed=0s ended=10s attempts=1
b ended node="node-00000" arrived=1s placed=15s ended=20s attempts=3
c ended node="node-00000" arrived=2s placed=10s ended=15s attempts=2
`},
		{"pods with a node need no decision", []simulate.Arrival{
			{Pod: bound, Duration: second(3)}, {Pod: pod("b", "2", "1Gi")}, {Pod: gated},
		}, simulate.Policy{}, 0, `
bound ended node="node-00000" arrived=0s placed=0s ended=3s attempts=0
b running node="node-00000" arrived=0s placed=3s ended=0s attempts=2
gated pending node="" arrived=0s placed=0s ended=0s attempts=0
`},
		{"a preempted pod ends after its grace period", []simulate.Arrival{
			{Pod: pod("low", "4", "1Gi"), Duration: second(100), Recreate: true},
			{Pod: important(pod("high", "4", "1Gi"), 10), At: second(5), Duration: second(10)},
		}, simulate.Policy{Preempt: true}, 0, `
low preempted node="node-00000" arrived=0s placed=0s ended=35s attempts=1
high ended node="node-00000" arrived=5s placed=35s ended=45s attempts=2
low-2 ended node="node-00000" arrived=5s placed=45s ended=2m25s attempts=2
`},
		{"nothing happens after the end", []simulate.Arrival{
			{Pod: pod("a", "4", "1Gi"), Duration: second(10)}, {Pod: pod("b", "4", "1Gi"), At: second(1), Duration: second(5)},
			{Pod: pod("late", "4", "1Gi"), At: second(9)},
		}, simulate.Policy{}, second(8), `
a running node="node-00000" arrived=0s placed=0s ended=0s attempts=1
b pending node="" arrived=1s placed=0s ended=0s attempts=1
`},
	} {
		t.Run(test.name, func(t *testing.T) {
			w := &simulate.Workload{Nodes: simulate.Uniform(1, "4", "8Gi"), Arrivals: test.arrivals, Until: test.until}
			if have := describe(run(t, w, test.policy)); have != test.want[1:] {
				t.Errorf("have\n%swant%s", have, test.want)
			}
		})
	}
}

// TestUsage checks the account of two nodes of four cores, of which one pod fills one and a half.
func TestUsage(t *testing.T) {
	w := &simulate.Workload{Nodes: simulate.Uniform(2, "4", "8Gi"), Arrivals: []simulate.Arrival{
		{Pod: pod("a", "3", "2Gi"), Duration: second(10)}, {Pod: pod("b", "2", "2Gi"), Duration: second(5)},
		{Pod: pod("huge", "5", "1Gi")},
	}}
	r := run(t, w, simulate.Policy{})
	if r.End != second(10) || r.Peak.NodesInUse != 2 || r.Mean.NodesInUse != 1.5 || r.Peak.Running != 2 || r.Mean.Pending != 1 {
		t.Errorf("end %v, peak %+v, mean %+v", r.End, r.Peak, r.Mean)
	}
	near := func(what string, have, want float64) {
		if math.Abs(have-want) > 1e-9 {
			t.Errorf("%s is %v, not %v", what, have, want)
		}
	}
	near("the peak of CPU", r.Peak.Requested[0], 5./8)
	near("the mean of CPU", r.Mean.Requested[0], (5*5+3*5)/80.)
	near("the mean of memory", r.Mean.Requested[1], (4*5+2*5)/160.)
	// The mean pod has 10/3 cores: none is left on a node with a pod, and 1 of 5 is stranded beside an empty one.
	near("the mean fragmentation of CPU", r.Mean.Fragmentation[0], (1+1./5)/2)
	reasons := r.Unplaceable()
	if len(reasons) != 1 || reasons[0] != (simulate.Reason{Message: "0/2 nodes are available: 2 Insufficient cpu.", Pods: 1}) {
		t.Errorf("reasons: %v", reasons)
	}
}

// TestBudget checks that preemption chooses the victim that no budget protects.
func TestBudget(t *testing.T) {
	kept := pod("kept", "4", "1Gi")
	kept.Labels = map[string]string{"app": "db"}
	w := &simulate.Workload{
		Nodes: simulate.Uniform(2, "4", "8Gi"),
		Budgets: []*policyv1.PodDisruptionBudget{{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "db"},
			Spec:       policyv1.PodDisruptionBudgetSpec{Selector: &metav1.LabelSelector{MatchLabels: kept.Labels}},
		}},
		Arrivals: []simulate.Arrival{
			{Pod: kept}, {Pod: pod("other", "4", "1Gi")}, {Pod: important(pod("high", "4", "1Gi"), 10), At: second(1)},
		},
	}
	for seed := range uint64(5) {
		r := run(t, w, simulate.Policy{Preempt: true, Seed: seed})
		if len(r.Preemptions) != 1 || r.Preemptions[0].Victim != "default/other" {
			t.Errorf("seed %d: %v", seed, r.Preemptions)
		}
	}
}

// TestWaits checks the percentiles of known waits: on one node, pod number i waits for those before it.
func TestWaits(t *testing.T) {
	w := &simulate.Workload{Nodes: simulate.Uniform(1, "1", "8Gi")}
	for i := range 100 {
		w.Arrivals = append(w.Arrivals, simulate.Arrival{Pod: pod(fmt.Sprintf("p%03d", i), "1", "1Mi"), Duration: second(20)})
	}
	r := run(t, w, simulate.Policy{})
	want := simulate.Waits{Pods: 100, P50: second(49 * 20), P99: second(98 * 20), Max: second(99 * 20)}
	if r.Waits != want {
		t.Errorf("have %+v, want %+v", r.Waits, want)
	}
}

// output returns all that a simulation of a workload writes.
func output(t *testing.T, w *simulate.Workload, p simulate.Policy) []byte {
	t.Helper()
	r := run(t, w, p)
	var b bytes.Buffer
	if err := json.NewEncoder(&b).Encode(r); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(simulate.WriteTable(&b, r), simulate.WriteSVG(&b, r)); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestDeterministic checks that two simulations of the same workload write the same bytes, with preemption and
// pods that arrive again.
func TestDeterministic(t *testing.T) {
	for seed := range uint64(5) {
		w := randomWorkload(seed, 80)
		for i := range w.Arrivals {
			w.Arrivals[i].Recreate = true
		}
		p := simulate.Policy{Preempt: true, Seed: seed}
		if first, second := output(t, w, p), output(t, w, p); !bytes.Equal(first, second) {
			t.Fatalf("seed %d: %s\nand\n%s", seed, first, second)
		}
	}
}

// TestInvalid checks that Run refuses a workload that makes no sense.
func TestInvalid(t *testing.T) {
	negative := pod("a", "-1", "1Gi")
	twice := simulate.Uniform(1, "1", "1Gi")
	for want, w := range map[string]*simulate.Workload{
		"simulate: a negative Until":                                                  {Until: -1},
		`simulate: node "node-00000" is there twice or has no name`:                   {Nodes: append(twice, twice...)},
		`simulate: node "" is there twice or has no name`:                             {Nodes: []*corev1.Node{{}}},
		"simulate: node node-00000: cpu is negative":                                  {Nodes: simulate.Uniform(1, "-1", "1Gi")},
		"simulate: arrival 0 has no pod":                                              {Arrivals: make([]simulate.Arrival, 1)},
		"simulate: pod default/a arrives twice":                                       {Arrivals: []simulate.Arrival{{Pod: pod("a", "1", "1")}, {Pod: pod("a", "1", "1"), At: 1}}},
		"simulate: pod default/a: cpu is negative":                                    {Arrivals: []simulate.Arrival{{Pod: negative}}},
		"simulate: pod default/a: the arrival at -1ns is not between 0 and 100 years": {Arrivals: []simulate.Arrival{{Pod: pod("a", "1", "1"), At: -1}}},
		"simulate: pod default/a: the duration 2562047h47m16.854775807s is not between 0 and 100 years": {
			Arrivals: []simulate.Arrival{{Pod: pod("a", "1", "1"), Duration: math.MaxInt64}}},
	} {
		if _, err := simulate.Run(t.Context(), w, simulate.Policy{}); err == nil || err.Error() != want {
			t.Errorf("have %v, want %s", err, want)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	w := &simulate.Workload{Arrivals: []simulate.Arrival{{Pod: pod("a", "1", "1")}}}
	if _, err := simulate.Run(ctx, w, simulate.Policy{}); err == nil {
		t.Error("a simulation goes on after its context is done")
	}
}

// TestHuge checks that amounts that no integer holds place no pod and break no account.
func TestHuge(t *testing.T) {
	w := &simulate.Workload{Nodes: simulate.Uniform(2, "9e30", "9e30"), Arrivals: []simulate.Arrival{
		{Pod: pod("a", "1e40", "1e40")}, {Pod: pod("b", "1", "1e18"), Duration: second(1)},
	}}
	r := run(t, w, simulate.Policy{})
	for _, s := range r.Samples {
		odd := func(share float64) bool { return math.IsNaN(share) || math.IsInf(share, 0) }
		if len(s.Requested) != 2 || len(s.Fragmentation) != 2 || slices.ContainsFunc(s.Requested, odd) || slices.ContainsFunc(s.Fragmentation, odd) {
			t.Errorf("at %v Requested is %v and Fragmentation %v, want finite numbers of cpu and memory",
				s.At, s.Requested, s.Fragmentation)
		}
	}
	if r.Pods[1].Outcome != simulate.Ended {
		t.Errorf("the pod b is %+v, want the outcome %s", r.Pods[1], simulate.Ended)
	}
}
